"""Units, and all functions that turn a number into text.

Values have NVML's own units (mW, MHz, bytes); people read watts and GiB. `readable` gives the long
form ("74.2 GiB"), the other functions the short ones used in tables. None is always `ABSENT`, never
0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import NamedTuple, TypeVar

ABSENT = "-"
"""Shown if a device has no such value."""

Number = TypeVar("Number", int, float)
Key = TypeVar("Key")
Item = TypeVar("Item")

_ONE_OR_SEVERAL = re.compile(r"\[(.*?)\|(.*?)\]")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


class Unit(Enum):
    """A unit that a field may have; the value is its suffix."""

    NONE = ""
    COUNT = "count"
    BYTE = "B"
    BYTE_PER_SECOND = "B/s"
    PERCENT = "%"
    CELSIUS = "°C"
    MILLIWATT = "mW"
    MILLIJOULE = "mJ"
    MEGAHERTZ = "MHz"
    SECOND = "s"
    PER_SECOND = "/s"
    MICROSECOND = "µs"

    @property
    def suffix(self) -> str:
        """The unit after a number, empty for a bare one."""
        return self.value


HIGHEST: Mapping[Unit, int] = {
    Unit.BYTE: 1 << 50,
    Unit.PERCENT: 100,
    Unit.CELSIUS: 200,
    Unit.MILLIWATT: 5_000_000,
    Unit.MEGAHERTZ: 100_000,
}
"""What no GPU exceeds: higher numbers are invalid. Bytes that fell below zero have wrapped."""


def readable(value: object, unit: Unit = Unit.NONE) -> str:
    """Return a value of any field for people: number and unit, yes/no, or a joined list."""
    if value is None:
        return ABSENT
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (tuple, list)):
        return ", ".join(readable(item, unit) for item in value) or "none"
    if isinstance(value, (int, float)):
        return _READABLE.get(unit, _plain)(value)
    return str(value)


def size(value: float | None, *, suffix: str = "B") -> str:
    """Return bytes with three digits and a binary prefix: `74.2 GiB`, `512 MiB`, `0 B`."""
    if value is None:
        return ABSENT
    number, prefix = _scaled(value)
    return f"{number} {prefix}{suffix}"


def short_size(value: float | None) -> str:
    """Return bytes in at most five columns: `74.2G`, `512M`, `0`."""
    if value is None:
        return ABSENT
    number, prefix = _scaled(value)
    return f"{number}{prefix[:1]}"


def watts(milliwatts: float | None) -> str:
    """Return whole watts: `310W`."""
    return ABSENT if milliwatts is None else f"{milliwatts / 1000:.0f}W"


def watts_in_words(milliwatts: float) -> str:
    """Return whole watts in a sentence: `310 W`."""
    return f"{milliwatts / 1000:.0f} W"


def kilowatts(milliwatts: float | None) -> str:
    """Return the power of many GPUs in at most five columns: `310W`, `5.6kW`, `2.9MW`."""
    if milliwatts is None:
        return ABSENT
    value = milliwatts / 1000
    for unit in ("W", "kW", "MW"):
        if value < 999.5:
            return f"{value:.0f}{unit}" if unit == "W" or value >= 99.5 else f"{value:.1f}{unit}"
        value /= 1000
    return f"{value:.1f}GW"


def percent(value: float | None) -> str:
    """Return a whole percentage: `42%`."""
    return ABSENT if value is None else f"{value:.0f}%"


def megahertz(value: float | None) -> str:
    """Return whole megahertz: `1980MHz`."""
    return ABSENT if value is None else f"{value:.0f}MHz"


def celsius(value: float | None) -> str:
    """Return whole degrees: `62C` (the degree sign is not ASCII)."""
    return ABSENT if value is None else f"{value:.0f}C"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 GPU`, `2,000 hosts`, `3 processes`."""
    ending = "" if number == 1 else "es" if noun.endswith(("s", "ch")) else "s"
    return f"{number:,} {noun}{ending}"


def inflected(number: int, text: str) -> str:
    """Return a text for a number, from `[is|are] hot`: `is hot` for one, `are hot` for two."""
    return _ONE_OR_SEVERAL.sub(r"\1" if number == 1 else r"\2", text)


def ranges(numbers: Iterable[int]) -> list[str]:
    """Return distinct numbers in any order as ranges, the lowest first: `0-3`, `6`."""
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    return [str(first) if first == last else f"{first}-{last}" for first, last in runs]


def floor_tenths(seconds: float) -> float:
    """Return a span rounded down to tenths of a second.

    Sentences round down too: rounded up, evidence could exceed the sentence that it supports.
    """
    return int(10 * seconds) / 10


def duration(seconds: float | None) -> str:
    """Return a span in its two largest units, at most six columns: `42s`, `3m07s`, `12d04h`."""
    if seconds is None:
        return ABSENT
    whole = max(0, int(seconds))
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m{whole % _MINUTE:02}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h{whole % _HOUR // _MINUTE:02}m"
    days, rest = divmod(whole, _DAY)
    return f"{days}d{rest // _HOUR:02}h" if days < 1000 else f"{days}d"


def hours(value: float | None) -> str:
    """Return hours of many GPUs: `4.5h`, `1,204h`."""
    if value is None:
        return ABSENT
    return f"{value:.1f}h" if value < 99.95 else f"{value:,.0f}h"


def price(value: float | None) -> str:
    """Return an amount of money: `1,204.50`."""
    return ABSENT if value is None else f"{value:,.2f}"


def short(value: float | None, unit: Unit) -> str:
    """Return a number of any unit in the form for axes and tables: `74.2G`, `310W`, `1.5G/s`."""
    if value is None:
        return ABSENT
    return _SHORT.get(unit, _bare)(value)


def span(seconds: float) -> str:
    """Return a round span in one unit: `30s`, `5m`, `12h`, `3d`."""
    whole = round(seconds)
    units = ((_DAY, "d"), (2 * _HOUR, "h"), (_MINUTE, "m"))
    for least, unit in units:
        size = _HOUR if unit == "h" else least
        if whole >= least and not whole % size:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def ratio(part: float | None, whole: float | None) -> float | None:
    """Return a share, None if unknown, or for a whole of zero."""
    return None if part is None or not whole else part / whole


def sum_known(values: Iterable[Number | None]) -> Number | None:
    """Return the sum of the known values, None if none is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def mean_known(values: Iterable[float | None]) -> float | None:
    """Return the mean of the known values, None if none is known."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def grouped(pairs: Iterable[tuple[Key, Item]]) -> dict[Key, list[Item]]:
    """Return the items by key, in their original order."""
    found: dict[Key, list[Item]] = {}
    for key, item in pairs:
        found.setdefault(key, []).append(item)
    return found


def _scaled(value: float) -> tuple[str, str]:
    """Return (digits, binary prefix): whole bytes bare, else three significant digits."""
    magnitude = abs(value)
    power = 0
    while magnitude >= 999.5 and power < len(_BINARY) - 1:
        magnitude /= 1024
        power += 1
    if power == 0:
        return f"{value:.0f}", ""
    digits = 0 if magnitude >= 99.95 else 1
    return f"{value / 1024**power:.{digits}f}", _BINARY[power]


def _plain(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.2f}"


def _bare(value: float) -> str:
    return f"{value:.0f}" if value == round(value) else f"{value:.3g}"


_SHORT: dict[Unit, Callable[[float], str]] = {
    Unit.BYTE: short_size,
    Unit.BYTE_PER_SECOND: lambda value: f"{short_size(value)}/s",
    Unit.PERCENT: lambda value: f"{_bare(value)}%",
    Unit.CELSIUS: lambda value: f"{_bare(value)}C",
    Unit.MILLIWATT: lambda value: f"{_bare(value / 1000)}W",
    Unit.MEGAHERTZ: lambda value: f"{_bare(value)}MHz",
    Unit.PER_SECOND: lambda value: f"{_bare(value)}/s",
}


_READABLE: dict[Unit, Callable[[float], str]] = {
    Unit.BYTE: size,
    Unit.BYTE_PER_SECOND: lambda value: size(value, suffix="B/s"),
    Unit.PERCENT: percent,
    Unit.CELSIUS: lambda value: f"{value:.0f} °C",
    Unit.MILLIWATT: lambda value: f"{value / 1000:.1f} W",
    Unit.MILLIJOULE: lambda value: f"{value / 3.6e9:.2f} kWh",
    Unit.MEGAHERTZ: lambda value: f"{value:.0f} MHz",
    Unit.SECOND: duration,
    Unit.PER_SECOND: lambda value: f"{_bare(value)}/s",
    Unit.MICROSECOND: lambda value: f"{_bare(value)} µs",
}


_QUANTITIES_BINARY = {prefix: 1024**power for power, prefix in enumerate("kmgtp", start=1)}
_SIZES: Mapping[str, int] = {
    "b": 1,
    **{
        prefix + suffix: n for prefix, n in _QUANTITIES_BINARY.items() for suffix in ("", "b", "ib")
    },
}
_SPANS: Mapping[str, int] = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DIGITS = frozenset("0123456789")
_MAX_DIGITS = 18
_MAX_PARTS = 5


class Quantity(NamedTuple):
    """A number in its base unit, and the value of its last digit: 74.2G has steps of 0.1G."""

    value: float
    step: float

    def is_close_to(self, value: float) -> bool:
        """Whether a value equals this one when rounded to the digits that were written."""
        return self.value - self.step / 2 <= value < self.value + self.step / 2


def parse_size(text: str) -> Quantity | None:
    """Return bytes: `10G`, `10GB` and `10GiB` are powers of 1024; only 0 needs no unit."""
    return _single(text, _SIZES)


def parse_percentage(text: str) -> Quantity | None:
    """Return a percentage, with or without its sign: `5`, `99.5%`."""
    return _number(text.removesuffix("%"))


def parse_span(text: str) -> Quantity | None:
    """Return seconds: `90s`, `10m`, `2h`, `3d`, `1w`, or joined: `1h30m`; only 0 needs no unit."""
    parts = _parts(text)
    if len(parts) > _MAX_PARTS:
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
    """Return a plain decimal; no sign, no exponent, at most 18 digits."""
    whole, point, fraction = text.partition(".")
    digits = whole + fraction
    if not whole or (point and not fraction) or not _DIGITS.issuperset(digits):
        return None
    if len(digits) > _MAX_DIGITS:
        return None
    return Quantity(float(text), 10.0 ** -len(fraction))


def _parts(text: str) -> list[str]:
    """Return `1h30m` as `1h`, `30m`: a part ends where a digit follows a letter."""
    starts = [0] + [
        index
        for index in range(1, len(text))
        if text[index] in _DIGITS and text[index - 1].isalpha()
    ]
    return [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]
