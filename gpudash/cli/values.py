"""Types of arguments; each raises ArgumentTypeError with the expected values."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from gpudash.model.device import Device
    from gpudash.model.units import Quantity

_MIN_SPEED, _MAX_SPEED = 0.1, 100.0
_MIN_SECONDS, _MAX_SECONDS = 0.1, 3600.0


def seconds(text: str) -> float:
    """Return seconds between samples, or for an answer."""
    expected = f"{_MIN_SECONDS:g} to {_MAX_SECONDS:g} seconds"
    return _number(text, _MIN_SECONDS, _MAX_SECONDS, expected)


def milliseconds(text: str) -> float:
    """Return the seconds of a number of milliseconds."""
    minimum, maximum = _MIN_SECONDS * 1000, _MAX_SECONDS * 1000
    return _number(text, minimum, maximum, f"{minimum:.0f} to {maximum:.0f} ms") / 1000


def speed(text: str) -> float:
    """Return the factor of `4` or `4x`."""
    expected = f"{_MIN_SPEED:g} to {_MAX_SPEED:g}"
    return _number(text.removesuffix("x"), _MIN_SPEED, _MAX_SPEED, expected)


def count(maximum: int) -> Callable[[str], int]:
    """Return the type of an integer from 1 to `maximum`."""

    def whole_number(text: str) -> int:
        # int() rejects thousands of digits.
        digits = text.lstrip("0") if text.isascii() and text.isdecimal() else ""
        if not digits or len(digits) > len(str(maximum)) or int(digits) > maximum:
            raise _invalid(text, f"1 to {maximum}")
        return int(digits)

    return whole_number


def letters(known: str) -> Callable[[str], str]:
    """Return the type of some of these letters, in any order."""

    def some(text: str) -> str:
        if not text or not set(text) <= set(known):
            raise ArgumentTypeError(f"{text[:40]!r}: expected letters of {known}")
        return "".join(dict.fromkeys(text))

    return some


def size(text: str) -> int:
    """Return the bytes of `20GiB`."""
    from gpudash.model import units

    return int(_value(units.parse_size(text), text, "a size such as 20GiB or 500M"))


def percentage(text: str) -> float:
    """Return the percent of `10` or `10%`."""
    from gpudash.model import units

    return _value(units.parse_percentage(text), text, "a percentage such as 10 or 2.5%")


def span(text: str) -> float:
    """Return the seconds of `90`, `90s`, `10m` or `1h30m`."""
    from gpudash.model import units

    plain = units.parse_percentage(text) if text.replace(".", "", 1).isdecimal() else None
    return _value(plain or units.parse_span(text), text, "a time such as 90s, 10m or 1h30m")


def window(text: str) -> float:
    """Return the seconds of a span of up to an hour."""
    seconds = span(text)
    if seconds > _MAX_SECONDS:
        raise _invalid(text, "up to 1h")
    return seconds


def _number(text: str, minimum: float, maximum: float, expected: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not minimum <= number <= maximum:
        raise _invalid(text, expected)
    return number


def _value(quantity: Quantity | None, text: str, expected: str) -> float:
    if quantity is None:
        raise _invalid(text, expected)
    return quantity.value


def _invalid(text: str, expected: str) -> ArgumentTypeError:
    return ArgumentTypeError(f"invalid value {text[:40]!r}: expected {expected}")


def visible_devices(devices: Sequence[Device], names: Literal["uuid", "index"] = "uuid") -> str:
    """Return a value for CUDA_VISIBLE_DEVICES."""
    if names == "uuid" or any(device.is_mig for device in devices):
        return ",".join(device.uuid or "" for device in devices)
    return ",".join(str(device.index) for device in devices)
