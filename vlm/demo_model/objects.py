"""The objects the demo model is taught: codepoints in, English noun phrase out.

This module knows no picture and no sentence; the list is `objects.txt`.
"""

from dataclasses import dataclass
from pathlib import Path

_LIST = Path(__file__).with_name("objects.txt")


@dataclass(frozen=True, slots=True)
class NamedObject:
    """One drawable thing; several codepoints where several drawings have one name.

    `phrase` is what a person would say ("a cup of coffee"); `name` is the word an
    answer must contain to count as right ("coffee").
    """

    codepoints: tuple[int, ...]
    phrase: str
    name: str
    synonyms: tuple[str, ...] = ()

    def is_named_in(self, text: str) -> bool:
        """Whether `text` contains the name or one of its synonyms as whole words."""
        padded = f" {plain_words(text)} "
        accepted = (self.name, *self.synonyms)
        return any(f" {plain_words(term)} " in padded for term in accepted)


def plain_words(text: str) -> str:
    """Lower case, words only, one space between them."""
    return " ".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


def _parse(line: str) -> NamedObject:
    codepoints, phrase, name, synonyms = [*line.split("|"), "", ""][:4]
    return NamedObject(
        codepoints=tuple(int(codepoint, 16) for codepoint in codepoints.split(",")),
        phrase=phrase,
        name=name or phrase.split(" ", 1)[1],
        synonyms=tuple(synonyms.split(",")) if synonyms else (),
    )


OBJECTS: tuple[NamedObject, ...] = tuple(
    _parse(line)
    for line in _LIST.read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
)
