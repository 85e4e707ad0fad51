"""Text into numbers, the way back from `gpudash.model.units`: `10G`, `5%`, `1h30m`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

_BINARY = {prefix: 1024**power for power, prefix in enumerate("kmgtp", start=1)}
_SIZES: Mapping[str, int] = {
    "b": 1,
    **{prefix + suffix: n for prefix, n in _BINARY.items() for suffix in ("", "b", "ib")},
}
_SPANS: Mapping[str, int] = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DIGITS = frozenset("0123456789")
_MOST_DIGITS = 18
_MOST_PARTS = 5


class Quantity(NamedTuple):
    """A number in its base unit, and how much its last digit is worth: 74.2G has steps of 0.1G."""

    value: float
    step: float

    def is_close_to(self, value: float) -> bool:
        """Whether a value is this one when it is rounded to the digits that were written."""
        return self.value - self.step / 2 <= value < self.value + self.step / 2


def size(text: str) -> Quantity | None:
    """Return bytes: `10G`, `10GB` and `10GiB` are powers of 1024; only 0 needs no unit."""
    return _single(text, _SIZES)


def percentage(text: str) -> Quantity | None:
    """Return a percentage, with its sign or without: `5`, `99.5%`."""
    return _number(text.removesuffix("%"))


def span(text: str) -> Quantity | None:
    """Return seconds: `90s`, `10m`, `2h`, `3d`, `1w`, or joined: `1h30m`; only 0 needs no unit."""
    parts = _parts(text)
    if len(parts) > _MOST_PARTS:
        return None
    whole = Quantity(0, 1)
    for part in parts:
        quantity = _single(part, _SPANS)
        if quantity is None:
            return None
        whole = Quantity(whole.value + quantity.value, quantity.step)
    return whole


def _single(text: str, units: Mapping[str, int]) -> Quantity | None:
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    number, unit = _number(digits), text[len(digits) :].lower()
    if number is None or (not unit and number.value):
        return None
    factor = units.get(unit) if unit else 1
    return None if factor is None else Quantity(number.value * factor, number.step * factor)


def _number(text: str) -> Quantity | None:
    """Return a plain decimal; neither signs nor exponents, and not endlessly many digits."""
    whole, point, fraction = text.partition(".")
    digits = whole + fraction
    if not whole or (point and not fraction) or not _DIGITS.issuperset(digits):
        return None
    if len(digits) > _MOST_DIGITS:
        return None
    return Quantity(float(text), 10.0 ** -len(fraction))


def _parts(text: str) -> list[str]:
    """Return `1h30m` as `1h`, `30m`: a part ends where a digit follows a letter."""
    starts = [0] + [
        place
        for place in range(1, len(text))
        if text[place] in _DIGITS and text[place - 1].isalpha()
    ]
    return [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]
