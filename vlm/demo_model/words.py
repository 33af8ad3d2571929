"""The words that printed text in the picture world is made of.

Each has three to eight letters and is one token of SmolLM2 after a space. They are the words that
the language model itself writes most often, and some that stand on signs.
"""

_TEXT = """
ability able about access achieve across activity adapt add address advice air all allows already
also always amazing analysis ancient and animals another answer any anything app apples approach are
around art article artist ask audience back bakery balance based bear beauty because become been
before began being believe benefits best between big biology birthday bit black blend body books
both box bridge bring brown buddy budget building built business but cake called can car carbon card
care case castle century change cheese choices choose city class classic clear climate closed code
coffee coin color come comedy common company concept context control cooking correct could count
country craft create creative creature culture cup current dance dark data day describe device diet
digital doctor done double down dragon drama dream each eagle ear earth eat economy email emotions
end energy engine enjoy equation era even event every example excited exercise explore fabric fact
family fashion feel few field file film find first flower fly focus food for forest form found free
friend from fruit full fun function future game garden get ghost gift give glad glass goals going
gold golden good great green group growth guide guitar had half hand happy has have health healthy
heart heat help her here high his history home hope hotel how human idea image industry input
internet into item its job journey just keep key kind kitchen know lack land language large latest
learn learning leaves left lesson library lies life light like line list little live local location
long looking lot love machine made magic magnetic main make many map market material math matter max
may means measure media medical medicine menu message method might mind mission mix model modern
moment money moon more most multiple multiply museum music must name nature need never new next
night not now number object ocean offer office often old one online only open options orange
original other our out over own page painting part party password past peace people perfect perform
person piece pink pizza place plan planet planning plants plastic play please police popular
positive possible power powerful primary prime print problem process product project protect proud
provide public pull purple push python quality question rabbit range read realm recipe result return
rich right risk river role rules running safety said salad school science sea search second secret
see seen self sense sentence service set share she should silver simple single skill sleep small
snow social solar solution solve some song sorry sort soul sound source space special speed spirit
sports spring start step still stone stop stories story strategy string study style such sum summer
sun support sure sword symbol system table take tale talk target task team tell term text than that
the their them then theory there these they thing think this those three through time tiny today
together too tool topic total toys travel triangle trip true twist two type unique universe unknown
usage use user value variety vast vegan very village virtual vital want was waste water waves way
web wedding week welcome well were what when where which while white who wide will window winter
with without woman wonder wood word work world would writer writing year yellow yet you young your
"""
WORDS: tuple[str, ...] = tuple(_TEXT.split())
