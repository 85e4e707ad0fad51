"""What can be chosen from a list, and which of it a few typed letters mean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

_MOST_TYPED = 40
_EXACT, _SHOWN, _RUN, _WORD = 1000, 100, 4, 3
"""Worth of a note that is just what was typed, of what is shown rather than found by other words,
of a letter behind its neighbour, of a new word."""


class Choice(NamedTuple):
    """An entry of a list."""

    value: str
    text: str
    note: str = ""
    """What stands at its right end."""
    marked: bool = False
    words: str = ""
    """What it is found by, too, and not shown."""


def ranked(choices: Iterable[Choice], typed: str) -> list[Choice]:
    """Return the entries that words or beginnings of words typed in their order fit, best first.

    `copid` is "copy the PID": each letter continues a word or begins a later one. Of entries that
    fit equally well, those come first whose text or another word of which begins with it.
    """
    wanted = "".join(typed.casefold().split())[:_MOST_TYPED]
    scored = [(_score(choice, wanted), choice) for choice in choices]
    fitting = [
        ((-score, not _begins(choice, wanted)), choice)
        for score, choice in scored
        if score is not None
    ]
    return [choice for _rank, choice in sorted(fitting, key=lambda pair: pair[0])]


def _score(choice: Choice, wanted: str) -> int | None:
    """Return how well an entry fits; None if it does not."""
    if wanted and choice.note.casefold() == wanted:
        return _EXACT
    shown, other = (_fit(text.casefold(), wanted) for text in (choice.text, choice.words))
    return other if shown is None else shown + _SHOWN


def _begins(choice: Choice, wanted: str) -> bool:
    names = ("".join(choice.text.split()), *choice.words.split())
    return any(name.casefold().startswith(wanted) for name in names)


def _fit(text: str, wanted: str) -> int | None:
    """Return how well the words of a text fit; None if they do not."""
    best: dict[int, int] = {-2: 0}
    for letter in wanted:
        # Place of the last letter taken -> the best score on the way there.
        reached: dict[int, int] = {}
        for before, score in best.items():
            for place in range(max(before + 1, 0), len(text)):
                if text[place] != letter:
                    continue
                if place == before + 1:
                    worth = _RUN
                elif _begins_word(text, place):
                    worth = _WORD
                else:
                    continue
                reached[place] = max(reached.get(place, 0), score + worth)
        best = reached
    if not best:
        return None
    return max(score - place // _MOST_TYPED for place, score in best.items())


def _begins_word(text: str, place: int) -> bool:
    return place == 0 or not text[place - 1].isalnum()
