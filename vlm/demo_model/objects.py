"""The objects the demo model is taught: codepoint in, English noun phrase out.

Plain data, and nothing else: this module knows no picture and no sentence.
The objects were chosen to look unlike each other at 60 pixels and to carry names
that a 135-million-parameter language model has often read.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NamedObject:
    """One drawable thing.

    `phrase` is what a person would say ("a cup of coffee"); `name` is the word an
    answer must contain to count as right ("coffee").
    """

    codepoint: int
    phrase: str
    name: str
    synonyms: tuple[str, ...] = ()

    def is_named_in(self, text: str) -> bool:
        """Whether `text` contains the name or one of its synonyms as whole words."""
        words = "".join(c if c.isalnum() else " " for c in text.lower()).split()
        padded = f" {' '.join(words)} "
        accepted = (self.name, *self.synonyms)
        return any(f" {term.lower().replace('-', ' ')} " in padded for term in accepted)


# codepoint | phrase | name, where it is not the phrase without its article | synonyms
_TABLE = """
1f34e|an apple
1f34c|a banana
1f347|a bunch of grapes|grapes|grape
1f349|a slice of watermelon|watermelon
1f34b|a lemon
1f353|a strawberry
1f34d|a pineapple
1f345|a tomato
1f346|an eggplant||aubergine
1f951|an avocado
1f966|a piece of broccoli|broccoli
1f955|a carrot
1f33d|an ear of corn|corn|maize
1f344|a mushroom
1f35e|a loaf of bread|bread
1f968|a pretzel
1f9c0|a piece of cheese|cheese
1f354|a hamburger||burger
1f355|a slice of pizza|pizza
1f32d|a hot dog
1f95a|an egg
1f37f|a box of popcorn|popcorn
1f366|an ice cream||ice cream cone
1f369|a donut||doughnut
1f36a|a cookie||biscuit
1f382|a birthday cake|cake
1f36b|a bar of chocolate|chocolate
2615|a cup of coffee|coffee|tea
1f377|a glass of wine|wine
1f37a|a mug of beer|beer
1f436|a dog||puppy
1f431|a cat||kitten
1f430|a rabbit||bunny
1f98a|a fox
1f43c|a panda
1f428|a koala
1f42f|a tiger
1f981|a lion
1f42e|a cow
1f437|a pig
1f438|a frog
1f435|a monkey
1f427|a penguin
1f986|a duck
1f989|an owl
1f987|a bat
1f434|a horse
1f984|a unicorn
1f41d|a bee
1f98b|a butterfly
1f40c|a snail
1f41e|a ladybug||ladybird
1f577|a spider
1f422|a turtle||tortoise
1f40d|a snake
1f419|an octopus
1f980|a crab
1f41f|a fish
1f433|a whale
1f40a|a crocodile||alligator
1f993|a zebra
1f418|an elephant
1f42a|a camel
1f992|a giraffe
1f411|a sheep
1f413|a rooster
1f335|a cactus
1f384|a Christmas tree
1f334|a palm tree
1f33b|a sunflower
1f339|a rose
1f337|a tulip
1f340|a four-leaf clover|clover|four-leaf clover
2600|a sun
1f319|a moon
2b50|a star
1f308|a rainbow
1f525|a fire||flame
2744|a snowflake
26c4|a snowman
1f4a7|a drop of water|water|droplet
1f30d|a globe||earth
1f697|a car
1f68c|a bus
1f692|a fire truck||fire engine
1f69c|a tractor
1f6b2|a bicycle||bike
2708|an airplane||plane
1f680|a rocket
1f681|a helicopter
26f5|a sailboat||boat
1f682|a train||locomotive
231a|a watch||wristwatch
1f4f1|a phone||smartphone
1f4bb|a laptop||computer
1f4f7|a camera
1f4fa|a television||TV
23f0|an alarm clock|clock|alarm
1f4a1|a light bulb||bulb
1f56f|a candle
1f528|a hammer
1f511|a key
1f512|a lock||padlock
1f6aa|a door
1f9f8|a teddy bear
1f381|a gift||present
1f388|a balloon
2709|an envelope||letter
270f|a pencil
2702|a pair of scissors|scissors
1f4d6|a book
1f451|a crown
1f453|a pair of glasses|glasses|eyeglasses
1f455|a shirt||T-shirt
1f457|a dress
1f45f|a shoe||sneaker
1f392|a backpack
2602|an umbrella
1f48d|a ring
1f3c0|a basketball
26bd|a soccer ball||football
1f3c6|a trophy
1f3b8|a guitar
1f3ba|a trumpet
1f941|a drum
1f3a7|a pair of headphones|headphones
1f3e0|a house||home
1f3f0|a castle
2693|an anchor
1f916|a robot
1f47b|a ghost
1f383|a pumpkin||jack-o-lantern
1f480|a skull
2764|a heart
"""


def _parse(line: str) -> NamedObject:
    codepoint, phrase, name, synonyms = [*line.split("|"), "", ""][:4]
    return NamedObject(
        codepoint=int(codepoint, 16),
        phrase=phrase,
        name=name or phrase.split(" ", 1)[1],
        synonyms=tuple(synonyms.split(",")) if synonyms else (),
    )


OBJECTS: tuple[NamedObject, ...] = tuple(_parse(line) for line in _TABLE.split("\n") if line)
