"""NVML's answers turned into values of fields; impossible ones become None.

Drivers have answered 37100 % and 2147483632 % (nvtop#110, DCGM#83), all ones for "unknown" and 0
bytes of total memory: a number outside its unit's range is not a value.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Any

from gpudash.model.device import EVENT_REASONS
from gpudash.model.text import NAME_BYTES, bound, clean, clean_bytes
from gpudash.model.units import HIGHEST, Unit

Convert = Callable[[Any], Any]

_UNKNOWN_8 = 0xFF
_UNKNOWN_32 = 0xFFFFFFFF
_UNKNOWN_64 = 0xFFFFFFFFFFFFFFFF
_MAX_FAN_PERCENT = 255
_MAX_SECONDS = 1e11

ARCHITECTURES = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}
COMPUTE_MODES = {0: "default", 1: "exclusive-thread", 2: "prohibited", 3: "exclusive-process"}
ADDRESSING_MODES = {0: "none", 1: "hmm", 2: "ats"}
OPERATION_MODES = {0: "all-on", 1: "compute", 2: "low-double-precision"}
PEER_TYPES = {0: "direct-connected", 1: "switch-connected"}
DRIVER_MODELS = {0: "WDDM", 1: "TCC", 2: "MCDM"}

BRANDS = {
    0: "Unknown",
    1: "Quadro",
    2: "Tesla",
    3: "NVS",
    4: "Grid",
    5: "GeForce",
    6: "Titan",
    7: "NVIDIA Virtual Applications",
    8: "NVIDIA Virtual PC",
    9: "NVIDIA Virtual Compute Server",
    10: "NVIDIA RTX Virtual Workstation",
    11: "NVIDIA Cloud Gaming",
    12: "Quadro RTX",
    13: "NVIDIA RTX",
    14: "NVIDIA",
    15: "GeForce RTX",
    16: "Titan RTX",
}
BRIDGES = {0: "PLX", 1: "BR04"}
VIRTUALIZATION_MODES = {0: "none", 1: "pass-through", 2: "vgpu", 3: "host-vgpu", 4: "host-vsga"}
HOST_VGPU_MODES = {0: "non-sr-iov", 1: "sr-iov"}

RECOVERY_ACTIONS = {
    0: "none",
    1: "gpu-reset",
    2: "node-reboot",
    3: "drain-p2p",
    4: "drain-and-reset",
    5: "recover-imex-domain",
    6: "bus-reset",
    7: "system-reboot",
}

_MAX_PAGES = 1 << 16


def within(low: int, high: int) -> Convert:
    """Return a conversion that keeps integers from `low` to `high`."""
    return lambda value: int(value) if value is not None and low <= value <= high else None


percent = within(0, HIGHEST[Unit.PERCENT])
fan_percent = within(0, _MAX_FAN_PERCENT)
celsius = within(-60, HIGHEST[Unit.CELSIUS])
milliwatts = within(0, HIGHEST[Unit.MILLIWATT])
megahertz = within(0, HIGHEST[Unit.MEGAHERTZ])
performance_state = within(0, 15)
count = within(0, _UNKNOWN_64 >> 1)
byte = within(0, _UNKNOWN_8 - 1)
small_count = within(0, _UNKNOWN_32 - 1)
size = within(0, HIGHEST[Unit.BYTE])
positive = within(1, HIGHEST[Unit.BYTE])


def seconds(value: float) -> float | None:
    """Return a Unix time or a span within the calendar, None for 0, which is unknown."""
    return float(value) if 0 < value <= _MAX_SECONDS else None


def nanoseconds(value: int) -> float | None:
    """Return the seconds of a counter of nanoseconds, to the microsecond."""
    known = count(value)
    return None if known is None else round(known / 1e9, 6)


def microseconds(value: int) -> float | None:
    """Return the Unix time of a number of microseconds, None for 0, which is unknown."""
    return seconds(value / 1e6)


def page_count(addresses: Sized) -> int | None:
    """Return how many pages are retired; a GPU can lose a few hundred at most."""
    number = len(addresses)
    return number if number <= _MAX_PAGES else None


def banks(histogram: Any) -> tuple[int, ...] | None:
    """Return how many banks have max, high, partial, low and no availability of spare rows."""
    names = ("max", "high", "partial", "low", "none")
    numbers = tuple(getattr(histogram, name) for name in names)
    return None if None in map(small_count, numbers) else numbers


def flag(value: Any) -> bool | None:
    """Return an NVML enable state as a bool."""
    return {0: False, 1: True}.get(value)


def first_bit(mask: int) -> bool:
    """Return whether the lowest bit of a mask is set."""
    return bool(mask & 1)


def string(value: Any) -> str | None:
    """Return a driver's string cleaned and shortened; empty is unknown."""
    text = clean_bytes(value) if isinstance(value, bytes) else clean(value)
    return bound(text, NAME_BYTES).strip() or None


def identifier(number: int) -> str | None:
    """Return a pair of PCI ids in the usual form: `0x20B210DE`."""
    return f"0x{number:08X}" if 0 <= number <= _UNKNOWN_32 else None


def hexadecimal(number: int) -> str | None:
    """Return a number in hexadecimal: `0x700`."""
    return None if number in (_UNKNOWN_32, _UNKNOWN_64) else f"0x{number:x}"


def first_bridge(name: str, convert: Convert) -> Convert:
    """Return a conversion of a member of the first PCIe bridge of a board, None for none."""
    return lambda board: (
        convert(getattr(board.bridgeChipInfo[0], name)) if board.bridgeCount else None
    )


def pci_class(number: int) -> str | None:
    """Return a PCI class or subclass in hexadecimal: `0x3`."""
    return f"0x{number:X}" if 0 <= number < _UNKNOWN_8 else None


def attribute(name: str, convert: Convert) -> Convert:
    """Return a conversion of one member of a structure."""
    return lambda structure: convert(getattr(structure, name))


def in_chassis(name: str) -> Convert:
    """Return a conversion of a position in a chassis, None for a server without one."""
    return lambda platform: (
        byte(getattr(platform, name)) if string(platform.chassisSerialNumber) else None
    )


def item(index: int, convert: Convert) -> Convert:
    """Return a conversion of one element of a list."""
    return lambda values: convert(values[index]) if len(values) > index else None


def named(names: dict[int, str]) -> Convert:
    """Return a conversion of an enumeration to its name, None for an unnamed value."""
    return names.get


def compute_capability(value: Any) -> str:
    """Return (major, minor) as CUDA writes it."""
    major, minor = value
    return f"{major}.{minor}"


def event_reasons(mask: int) -> tuple[str, ...] | None:
    """Return the names of the set bits, unknown bits by value; all bits set is garbage."""
    if mask == _UNKNOWN_64:
        return None
    rest = mask & ~sum(EVENT_REASONS.values())
    names = [name for name, bit in EVENT_REASONS.items() if mask & bit]
    return (*names, hex(rest)) if rest else tuple(names)
