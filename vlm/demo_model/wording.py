"""English as the dialogues need it: plurals, articles, numbers, lists."""

from collections.abc import Sequence

import inflect

NUMBER_WORDS = ("zero", "one", "two", "three", "four", "five", "six")
_INFLECT = inflect.engine()


def plural_noun(noun: str) -> str:
    """ "fox" -> "foxes"."""
    return str(_INFLECT.plural_noun(noun))


def plural(phrase: str) -> str:
    """ "a loaf of bread" -> "loaves of bread"."""
    head, of, rest = phrase.split(" ", 1)[1].partition(" of ")
    if head in ("fork and knife", "bow and arrow"):
        return f"{head} sets"
    return plural_noun(head) + of + rest


def with_article(words: str) -> str:
    """ "orange ring" -> "an orange ring"."""
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def join_words(parts: Sequence[str]) -> str:
    """ "a cat, a dog and a fox"."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def counted(number: int, phrase: str) -> str:
    """ "a loaf of bread", or "two loaves of bread"."""
    return phrase if number == 1 else f"{NUMBER_WORDS[number]} {plural(phrase)}"
