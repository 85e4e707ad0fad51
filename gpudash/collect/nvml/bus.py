"""The PCI bus as the kernel shows it: which NVIDIA GPUs there are and which of them sleep.

The files of sysfs wake nothing, while any NVML call on a runtime-suspended GPU powers it up. That
of the driver tells what is cached, but some drivers power the GPU up for it (open kernel modules
515.43.04, nv-procfs.c): once is enough.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Protocol

from msgspec import Struct

from gpudash.model.text import clean

_DISPLAY_CLASS = "0x03"


class Identity(Struct, frozen=True):
    """What the kernel module tells of a GPU without NVML; None where it does not know."""

    name: str | None
    uuid: str | None


UNKNOWN = Identity(None, None)


class Bus(Protocol):
    """The NVIDIA GPUs on a PCI bus, by address such as `0000:1a:00.0`."""

    def power_states(self) -> dict[str, str]:
        """Return the runtime power status of each GPU in PCI order: active, suspended, ..."""
        ...

    def identity(self, address: str) -> Identity:
        """Return name and UUID of a GPU without NVML; not to be asked in every tick."""
        ...

    def driver_load(self) -> int | None:
        """Return a number that is another after the driver was loaded anew, None if unknown."""
        ...


class PciBus:
    """The bus of this machine, from the devices bound to the NVIDIA kernel driver."""

    def __init__(
        self,
        driver: str = "/sys/bus/pci/drivers/nvidia",
        procfs: str = "/proc/driver/nvidia/gpus",
        module: str = "/sys/module/nvidia",
    ) -> None:
        self._driver = driver
        self._procfs = procfs
        self._module = module

    def power_states(self) -> dict[str, str]:
        """Return the runtime power status of each NVIDIA GPU, in PCI order."""
        try:
            addresses = sorted(name for name in os.listdir(self._driver) if ":" in name)
        except OSError:
            return {}
        return {
            address: _read(f"{self._driver}/{address}/power/runtime_status") or "unsupported"
            for address in addresses
            if (_read(f"{self._driver}/{address}/class") or "").startswith(_DISPLAY_CLASS)
        }

    def identity(self, address: str) -> Identity:
        """Return what the kernel module has cached about a GPU."""
        text = _read(f"{self._procfs}/{address}/information") or ""
        pairs = (line.partition(":") for line in text.splitlines())
        facts = {key.strip(): value.strip() for key, _, value in pairs}
        uuid = facts.get("GPU UUID", "")
        name = clean(facts.get("Model", ""))
        return Identity(name or None, None if "?" in uuid else clean(uuid) or None)

    def driver_load(self) -> int | None:
        """Return the inode of the module's directory: sysfs never gives one twice."""
        try:
            return os.stat(self._module).st_ino
        except OSError:
            return None


@lru_cache(maxsize=256)
def kernel_address(bus_id: str | bytes | None) -> str | None:
    """Return NVML's `00000000:1A:00.0` as the kernel's `0000:1a:00.0`, None if it is neither.

    A domain may have more than four digits: those behind Intel's VMD begin at 10000.
    """
    text = bus_id.decode("ascii", "replace") if isinstance(bus_id, bytes) else bus_id or ""
    domain, _, rest = text.partition(":")
    try:
        return f"{int(domain, 16):04x}:{rest.lower()}"
    except ValueError:
        return None


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(65536).strip()
    except OSError:
        return None
