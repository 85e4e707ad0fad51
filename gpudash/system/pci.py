"""The address of a PCI device in the kernel's and in NVML's form."""

from __future__ import annotations

from functools import lru_cache

from gpudash.model.text import SafeText, clean

_HEXADECIMAL = frozenset("0123456789abcdef")


@lru_cache(maxsize=256)
def kernel_address(bus_id: str | bytes | None) -> SafeText | None:
    """Return NVML's `00000000:1A:00.0` as the kernel's `0000:1a:00.0`, None if it is neither.

    It is the name of a directory in /sys/bus/pci/devices. A domain may have more than four digits:
    those of Intel's VMD begin at 10000.
    """
    text = bus_id.decode("ascii", "replace") if isinstance(bus_id, bytes) else bus_id or ""
    domain, _, rest = text.lower().partition(":")
    if not domain or not rest or "/" in rest or not _HEXADECIMAL.issuperset(domain):
        return None
    return clean(f"{int(domain, 16):04x}:{rest}")


def nvml_address(address: str | None) -> SafeText | None:
    """Return the kernel's `0000:1a:00.0` as NVML's `00000000:1A:00.0`, None for None."""
    if address is None:
        return None
    domain, _, rest = address.partition(":")
    return clean(f"{domain:0>8}:{rest}".upper())
