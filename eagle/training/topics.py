"""The words that training prompts are made of. Data only: written for this project, by hand."""

from __future__ import annotations


def _items(block: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in block.replace("\n", " ").split(";") if item.strip())


TOPICS = _items("""
the sea; bread; gravity; castles; winter; the moon; homework; chess; robots; coffee; soil; bees;
volcanoes; honey; trains; bicycles; dreams; the human heart; vaccines; democracy; the Roman
Empire; black holes; whales; cats; dogs; horses; butterflies; rain; rainbows; thunderstorms;
deserts; forests; mountains; rivers; glaciers; islands; coral reefs; earthquakes; the ozone layer;
recycling; solar energy; wind power; electric cars; airplanes; ships; bridges; skyscrapers;
lighthouses; libraries; museums; schools; hospitals; markets; farms; gardens; kitchens;
restaurants; pizza; chocolate; cheese; rice; soup; salad; apples; tea; spices; cooking; baking;
gardening; fishing; hiking; swimming; running; yoga; football; basketball; tennis; dancing;
singing; painting; drawing; photography; poetry; novels; films; theatre; music; the piano; the
guitar; the violin; jazz; opera; computers; the internet; programming; databases; artificial
intelligence; machine learning; neural networks; search engines; social media; email; smartphones;
video games; passwords; encryption; satellites; rockets; Mars; the Sun; stars; galaxies; comets;
time zones; clocks; calendars; maps; compasses; money; banks; saving money; taxes; inflation;
trade; small businesses; job interviews; teamwork; leadership; time management; public speaking;
negotiation; friendship; family; kindness; honesty; courage; patience; happiness; stress; sleep;
memory; learning; habits; exercise; healthy eating; vitamins; water; bones; muscles; the brain;
the lungs; blood; skin; teeth; eyes; ears; viruses; bacteria; medicine; first aid; doctors;
nurses; teachers; farmers; firefighters; astronauts; engineers; artists; writers; scientists;
explorers; kings and queens; pirates; knights; dragons; ghosts; magic; fairy tales; myths; ancient
Egypt; ancient Greece; China; Japan; India; Brazil; Kenya; France; Italy; Canada; Australia;
London; Paris; New York; Tokyo; the Amazon; the Sahara; Antarctica; the Arctic; the Industrial
Revolution; the Renaissance; the Middle Ages; the printing press; steam engines; electricity;
magnets; light; sound; heat; atoms; molecules; chemistry; physics; biology; mathematics; geometry;
fractions; statistics; probability; algebra; prime numbers; graphs; logic; philosophy; ethics;
psychology; history; geography; economics; law; languages; grammar; spelling; handwriting;
letters; newspapers; radio; television; advertising; fashion; shoes; jewelry; furniture; houses;
windows; doors; colors; numbers; shapes; toys; puzzles; birthdays; holidays; weddings; travel;
camping; hotels; passports; suitcases; beaches; snow; ice; fire; wood; stone; glass; paper;
plastic; metal; gold; diamonds; oil; plants; trees; flowers; roses; mushrooms; seeds; fruit;
vegetables; birds; owls; penguins; eagles; fish; sharks; frogs; snakes; spiders; ants; elephants;
lions; bears; wolves; rabbits; cows; sheep; dinosaurs; fossils; evolution; climate change;
pollution; clean water; cities; villages; traffic; public transport; volunteering
""")

# Categories of prompts; {topic} and {other} are two different topics.
TEMPLATES: dict[str, tuple[str, ...]] = {
    "question": _items("""
What is special about {topic}?; Why is {topic} important?; What should I know about {topic}?;
Where can I learn more about {topic}?; What do people like about {topic}?;
What are common mistakes with {topic}?; Can you tell me something about {topic}?;
What would the world be like without {topic}?; Is {topic} dangerous?; Who cares about {topic}?;
What is the connection between {topic} and {other}?; When did people first think about {topic}?;
How are {topic} and {other} different?; What questions do children ask about {topic}?
"""),
    "explain": _items("""
Explain {topic} to a child.; Explain {topic} in simple terms.; How does {topic} work?;
Describe {topic} in one paragraph.; Give me a short introduction to {topic}.;
Explain why {topic} matters in everyday life.; Explain the history of {topic} briefly.;
Compare {topic} and {other}.; Describe {topic} in one sentence.; Define {topic}.;
Explain {topic} step by step.; Teach me the basics of {topic}.;
What does {topic} mean to a scientist?
"""),
    "list": _items("""
Give me five facts about {topic}.; List three advantages and three disadvantages of {topic}.;
Give me ten words related to {topic}.; List the most important things about {topic}.;
Suggest five books about {topic}.; Give me three tips about {topic}.;
Name four questions to ask an expert on {topic}.;
List five activities that involve {topic}.;
What are the main types of {topic}? Make a list.; Give me a checklist about {topic}.;
List three ways in which {topic} and {other} are alike.;
Give me five titles for an essay on {topic}.
"""),
    "story": _items("""
Write a short story about {topic}.; Write a poem about {topic}.; Write a haiku about {topic}.;
Tell me a joke about {topic}.; Write a dialogue between two friends about {topic}.;
Write the first paragraph of a novel about {topic} and {other}.; Invent a legend about {topic}.;
Write a bedtime story with {topic} in it.; Write a short scene in which {topic} meets {other}.;
Describe {topic} as if you saw it for the first time.; Write a diary entry about {topic}.;
Write a song about {topic}.
"""),
    "writing": _items("""
Write an email to a friend about {topic}.; Write a product description for {topic}.;
Write a short essay about {topic}.; Write a letter to the editor about {topic}.;
Write a slogan for {topic}.; Write an introduction to a blog post about {topic}.;
Write a short speech about {topic}.; Write a review of a film about {topic}.;
Write a paragraph that argues for {topic}.; Write a polite request about {topic}.;
Write a tweet about {topic}.; Write a headline and a short news story about {topic}.
"""),
    "code": _items("""
Write a Python function that counts words about {topic} in a text.;
Write a Python class for {topic}.; Write a Python program that prints a list of {topic}.;
Write a simple web page in HTML about {topic}.; Write a JSON object that describes {topic}.;
Write a SQL query that finds all entries about {topic}.; Write a Python function that sorts a list.;
Write a Python function that reverses a string and explain it.;
Write a Python function that checks whether a number is prime.;
Write a JavaScript function that shows a message about {topic}.;
Write a Python dictionary with facts about {topic}.; Write a Python loop that adds numbers.;
Write pseudo-code for a game about {topic}.; How do I read a file about {topic} in Python?
"""),
    "chat": _items("""
Hi! Can we talk about {topic}?; I am interested in {topic}. Where should I start?;
My friend loves {topic}. What gift would you suggest?; I have to give a talk on {topic}. Help me.;
I am afraid of {topic}. What can I do?; What do you think about {topic}?;
Hello! Do you prefer {topic} or {other}?; I am bored. Tell me something about {topic}.;
Yesterday I read about {topic}. What else is there?; Good morning! Let's discuss {topic}.;
Can you help me with {topic}?; Thanks! And what about {topic}?
"""),
    "instruction": _items("""
Plan a lesson about {topic}.; Make a plan to learn about {topic} in a week.;
Describe how to teach {topic} to beginners.; Create a quiz with three questions about {topic}.;
Write instructions for a game about {topic}.; Give an example of {topic}.;
Suggest a project that combines {topic} and {other}.; Draft a to-do list for {topic}.;
Design an experiment about {topic}.; Recommend a day trip about {topic}.;
Classify {topic} and {other}: what kind of thing is each?;
Complete the sentence: I love {topic} because
"""),
}

# How an invented user turn may begin; the base writes on from here.
STARTERS = _items("""
What; How; Why; Explain; Write; Describe; Can you; Give me; Tell me; List; Create; I; I'm; My; The;
A;
Is; Are; Do; Does; Who; When; Where; Which; Summarize; Compare; Suggest; Design; Help me; Please;
Imagine; Generate; Make; Find; Rewrite; Translate; Identify; Classify; Discuss; Analyze; Calculate;
Solve; If; In; You; Let's; Hello; Hi; Could you; Should I; Should; Name; Provide; Develop; Compose;
Write a; Write a Python function; Write a short; What is; What are; How do I; How can; Why do;
Explain how; Describe a; Create a; Given; Consider; Suppose; Think of; Outline; Define; Draft; Plan
""")

PASSAGES = _items("""
The market opens at six in the morning. Farmers bring fruit, bread and flowers, and by noon almost
everything is sold.;
Our team finished the first version of the app last week. It is fast on new phones, but it still
crashes on older ones, so we will spend this month on fixes.;
Water expands when it freezes. That is why ice floats, and why pipes can burst on a cold night.;
Maria moved to the city two years ago. At first she missed the quiet of her village, but now she
enjoys the concerts, the parks and her new friends.;
The old bridge was closed in spring because its pillars were damaged. Engineers expect the repair to
take eight months and to cost about two million euros.;
Many birds fly south in autumn. They find their way by the sun, the stars and the magnetic field of
the Earth.;
i has went to the store yesterday and buyed some milks, but the shop were close so i goes home.;
Regular exercise keeps the heart strong, improves sleep and lifts the mood. Even a walk of twenty
minutes a day makes a difference.;
The library will be closed on Monday for cleaning. Books can be returned through the box beside the
front door, and no fees will be charged.;
Tom found a small grey cat under his car. He gave it some water, asked his neighbours about it, and
in the evening a happy girl came to take it home.;
Solar panels have become much cheaper during the last ten years. In sunny regions they are now the
least expensive way to make electricity.;
The meeting starts at nine. Please read the report before it, bring your questions, and tell us by
Friday whether you want to take part online.;
Plants take in carbon dioxide and water and use the light of the sun to make sugar. In doing so they
release the oxygen that we breathe.;
The first chapter is slow, and the hero is hard to like. But the second half of the book is clever,
funny and full of surprises, and I could not put it down.;
me and him dont never agree about nothing but we is still best friend since ten year.;
The recipe needs two eggs, a cup of flour, half a cup of milk and a little salt. Mix everything, let
it rest for ten minutes and fry it in a hot pan.;
Long ago, traders carried silk, spices and ideas along roads that crossed half of the world. Towns
grew where the roads met.;
The company lost money in the first quarter because of higher prices for energy, but it expects a
small profit by the end of the year.
""")
