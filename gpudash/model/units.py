"""Units, and the one place that turns a number into text.

Values travel in NVML's own units (mW, MHz, bytes); people read watts and GiB. `readable` gives
the long form ("74.2 GiB"), the functions beside it the short ones that tables are built from.
None, the absent value, is always `ABSENT` and never 0.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

ABSENT = "-"
"""What stands where a device has no such value."""

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
    RPM = "rpm"
    SECOND = "s"
    PER_SECOND = "/s"

    @property
    def suffix(self) -> str:
        """The unit as written behind a number, empty for a bare one."""
        return self.value


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


def percent(value: float | None) -> str:
    """Return a whole percentage: `42%`."""
    return ABSENT if value is None else f"{value:.0f}%"


def celsius(value: float | None) -> str:
    """Return whole degrees: `62C` (the degree sign is no ASCII)."""
    return ABSENT if value is None else f"{value:.0f}C"


def duration(seconds: float | None) -> str:
    """Return a span in its two largest units, six columns at most: `42s`, `3m07s`, `12d04h`."""
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


def short(value: float | None, unit: Unit) -> str:
    """Return a number of any unit as on an axis or in a table: `74.2G`, `310W`, `1.5G/s`."""
    if value is None:
        return ABSENT
    return _SHORT.get(unit, _bare)(value)


def span(seconds: float) -> str:
    """Return a round span in one unit: `30s`, `5m`."""
    minutes, rest = divmod(round(seconds), _MINUTE)
    return f"{round(seconds)}s" if rest or not minutes else f"{minutes}m"


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
    Unit.PERCENT: lambda value: f"{value:.0f} %",
    Unit.CELSIUS: lambda value: f"{value:.0f} °C",
    Unit.MILLIWATT: lambda value: f"{value / 1000:.1f} W",
    Unit.MILLIJOULE: lambda value: f"{value / 3.6e9:.2f} kWh",
    Unit.MEGAHERTZ: lambda value: f"{value:.0f} MHz",
    Unit.RPM: lambda value: f"{value:.0f} rpm",
    Unit.SECOND: duration,
    Unit.PER_SECOND: lambda value: f"{_bare(value)} /s",
}
