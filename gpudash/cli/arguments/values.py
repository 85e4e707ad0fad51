"""Words of the command line into values; each raises ArgumentTypeError with what would do."""

from __future__ import annotations

from argparse import ArgumentTypeError
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpudash.model.units import Quantity

_LEAST_SPEED, _MOST_SPEED = 0.1, 100.0
_LEAST_SECONDS, _MOST_SECONDS = 0.1, 3600.0


def interval(text: str) -> float:
    """Return seconds between samples."""
    return _seconds(text, "interval")


def timeout(text: str) -> float:
    """Return how long a call of the driver may take."""
    return _seconds(text, "timeout")


def seconds(text: str) -> float:
    """Return seconds of a loop."""
    return _seconds(text, "loop")


def milliseconds(text: str) -> float:
    """Return seconds of a loop that is told in milliseconds."""
    number = int(text[:12]) if text.isascii() and text.isdecimal() else 0
    if not _LEAST_SECONDS <= number / 1000 <= _MOST_SECONDS:
        least, most = _LEAST_SECONDS * 1000, _MOST_SECONDS * 1000
        raise ArgumentTypeError(f"{text!r} is no loop: choose {least:.0f} to {most:.0f} ms")
    return number / 1000


def count(text: str) -> int:
    """Return how many, one at least."""
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:6]) <= 1024):
        raise ArgumentTypeError(f"{text!r} is no number of GPUs: choose 1 or more")
    return int(text)


def files(text: str) -> int:
    """Return how many files are kept, one at least."""
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:6]) <= 1000):
        raise ArgumentTypeError(f"{text!r} is no number of files: choose 1 to 1000")
    return int(text)


def speed(text: str) -> float:
    """Return how many times as fast, `4` or `4x`."""
    try:
        times = float(text.removesuffix("x"))
    except ValueError:
        times = float("nan")
    if not _LEAST_SPEED <= times <= _MOST_SPEED:
        raise ArgumentTypeError(f"{text!r} is no speed: choose {_LEAST_SPEED:g} to {_MOST_SPEED:g}")
    return times


def size(text: str) -> int:
    """Return bytes of `20GiB`."""
    from gpudash.model import units

    return int(_value(units.parse_size(text), text, "no size: write 20GiB, or 500M"))


def percentage(text: str) -> float:
    """Return percent of `10` or `10%`."""
    from gpudash.model import units

    return _value(units.parse_percentage(text), text, "no percentage: write 10, or 2.5%")


def window(text: str) -> float:
    """Return seconds over which something is judged, an hour at most."""
    seconds = span(text)
    if seconds > _MOST_SECONDS:
        raise ArgumentTypeError(f"{text!r} is too long: an hour at most")
    return seconds


def span(text: str) -> float:
    """Return seconds of `90`, `90s`, `10m` or `1h30m`."""
    from gpudash.model import units

    plain = units.parse_percentage(text) if text.replace(".", "", 1).isdecimal() else None
    return _value(plain or units.parse_span(text), text, "no time: write 90s, 10m or 1h30m")


def _seconds(text: str, what: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = float("nan")
    if not _LEAST_SECONDS <= seconds <= _MOST_SECONDS:
        raise ArgumentTypeError(
            f"{text!r} is no {what}: choose {_LEAST_SECONDS:g} to {_MOST_SECONDS:g} seconds"
        )
    return seconds


def _value(quantity: Quantity | None, text: str, problem: str) -> float:
    if quantity is None:
        raise ArgumentTypeError(f"{text!r} is {problem}")
    return quantity.value
