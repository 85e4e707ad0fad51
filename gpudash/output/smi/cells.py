"""Values as nvidia-smi writes them into a cell; None is what it writes as `[N/A]`."""

from __future__ import annotations

from datetime import datetime

from gpudash.model.text import clean

_MIB = 1 << 20
_UNKNOWN_STATE = 32


def whole(value: float | None) -> str | None:
    """Return a whole number."""
    return None if value is None else f"{value:.0f}"


def mebibytes(value: int | None) -> str | None:
    """Return bytes as MiB, rounded down."""
    return None if value is None else str(value // _MIB)


def watts(milliwatts: int | None) -> str | None:
    """Return watts with two decimals."""
    return None if milliwatts is None else f"{milliwatts / 1000:.2f}"


def enabled(value: bool | None) -> str | None:
    """Return `Enabled` or `Disabled`."""
    return None if value is None else "Enabled" if value else "Disabled"


def yes(value: bool | None) -> str | None:
    """Return `Yes` or `No`."""
    return None if value is None else "Yes" if value else "No"


def words(value: str | None) -> str | None:
    """Return text that cannot break its row."""
    return None if value is None else clean(value)


def title(value: str | None) -> str | None:
    """Return `exclusive-process` as `Exclusive_Process`."""
    return None if value is None else "_".join(part.capitalize() for part in value.split("-"))


def state(value: int | None) -> str | None:
    """Return `P0`."""
    return None if value is None or value == _UNKNOWN_STATE else f"P{value}"


def moment(value: datetime) -> str:
    """Return local time: `2026/11/21 10:53:41.983`."""
    local = value.astimezone()
    return f"{local:%Y/%m/%d %H:%M:%S}.{local.microsecond // 1000:03}"
