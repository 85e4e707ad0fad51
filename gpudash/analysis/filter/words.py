"""The words of a filter: `-mem>10G` is negated and has a name, a sign and a value."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gpudash.model.errors import FilterError
from gpudash.model.text import SafeText, clean

_QUOTES = "\"'"
_SIGNS = (">=", "<=", "!=", "==", ">", "<", "=", ":")
"""Longer signs precede those that they begin with."""

_MAX_SHOWN = 40


class Word(Struct, frozen=True):
    """One word and its position in the filter."""

    start: int
    end: int
    written: SafeText
    """As typed, shortened and cleaned for messages."""
    negated: bool
    name: str
    """The part before the sign; empty for a word that is quoted or has no sign."""
    sign: str
    value: str
    """The part after the sign, without its quotes."""
    plain: str
    """The word without negation and quotes."""


def quoted(text: str) -> str:
    """Return the word that searches for exactly this text, whatever it contains."""
    return '"' + text.replace('"', '""') + '"'


def split(text: str) -> Iterator[Word]:
    """Yield the words of a filter.

    Raises FilterError for an unclosed quote, and for a negation of nothing.
    """
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        word = _word(text, at)
        yield word
        at = word.end


def _word(text: str, start: int) -> Word:
    negated = _is_negated(text, start)
    body = start + negated
    if body == len(text) or text[body].isspace():
        raise FilterError(f'"{text[start:body]}" negates nothing: put a word after it', start, body)
    name_end = body
    while name_end < len(text) and _is_name_char(text[name_end]):
        name_end += 1
    sign = next((sign for sign in _SIGNS if text.startswith(sign, name_end)), "")
    value, end = _value(text, name_end + len(sign) if sign else body)
    return Word(
        start=start,
        end=end,
        written=clean(text[start:end], _MAX_SHOWN),
        negated=negated,
        name=text[body:name_end] if sign else "",
        sign="=" if sign == "==" else sign,
        value=value,
        plain=text[body : name_end + len(sign)] + value if sign else value,
    )


def _is_name_char(char: str) -> bool:
    return char in "-_" or (char.isascii() and char.isalpha())


def _is_negated(text: str, start: int) -> bool:
    """Whether a word begins with - or !, and is not a long option such as --batch."""
    return text[start] in "-!" and not text.startswith("--", start)


def _value(text: str, start: int) -> tuple[str, int]:
    """Return the text up to the next space, or in quotes, and where it ends."""
    if start < len(text) and text[start] in _QUOTES:
        return _in_quotes(text, start)
    end = start
    while end < len(text) and not text[end].isspace():
        end += 1
    return text[start:end], end


def _in_quotes(text: str, start: int) -> tuple[str, int]:
    """Return the quoted text, in which two quotes stand for one, and where it ends."""
    quote, parts = text[start], []
    begin = start + 1
    while True:
        end = text.find(quote, begin)
        if end < 0:
            shown = clean(text[start:], _MAX_SHOWN)
            raise FilterError(f"{shown} is not closed: end it with {quote}", start, len(text))
        parts.append(text[begin:end])
        if not text.startswith(quote, end + 1):
            return quote.join(parts), end + 1
        begin = end + 2
