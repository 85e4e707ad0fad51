"""The PCI bus according to the kernel: which NVIDIA GPUs exist, sleep, and may sleep.

Reading sysfs wakes nothing, while any NVML call on a runtime-suspended GPU powers it up. The
driver's own files show cached data, but some drivers power the GPU up to answer (open kernel
modules 515.43.04, nv-procfs.c): they are read once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from gpudash.model.text import clean
from gpudash.system.files import read_start

_DISPLAY_CLASS = "0x03"
_MAX_BYTES = 1 << 16
SUSPENDED = frozenset({"suspended", "suspending"})
_QUIET_SECONDS = 30.0
"""How long nothing must happen before the GPUs are left alone."""
_FALL_ASLEEP_SECONDS = 30.0
"""A GPU that stays awake for longer is kept awake by others: leaving it alone is useless."""
_RETRY_SECONDS = 600.0

PowerStates = Mapping[str, str]
"""Runtime power status by PCI address."""


class Identity(Struct, frozen=True):
    """A GPU's identity from the kernel module, without NVML; None if unknown."""

    name: str | None
    uuid: str | None


UNKNOWN = Identity(None, None)


class Bus(Protocol):
    """The NVIDIA GPUs on a PCI bus, by address such as `0000:1a:00.0`."""

    def power_states(self) -> dict[str, str]:
        """Return the runtime power status of each GPU in PCI order: active, suspended, ..."""

    def identity(self, address: str) -> Identity:
        """Return name and UUID of a GPU without NVML; not for every tick."""

    def driver_load(self) -> int | None:
        """Return a number that changes when the driver is loaded again, None if unknown."""


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
        """Return the inode of the module's directory: sysfs never reuses one."""
        try:
            return os.stat(self._module).st_ino
        except OSError:
            return None


class IdlePolicy:
    """When to leave the GPUs of a laptop alone: idle and on battery, so that they can sleep.

    A client of the driver alone keeps a GPU awake, which costs some watts. The files read here wake
    nothing.
    """

    def __init__(
        self,
        supplies: str = "/sys/class/power_supply",
        devices: str = "/sys/bus/pci/devices",
        *,
        on_mains: bool = False,
    ) -> None:
        """`on_mains` leaves them alone on mains too: for a collector that runs for ever."""
        self._supplies = supplies
        self._devices = devices
        self._on_mains = on_mains
        self._quiet_since: float | None = None
        self._begins = False
        self._since: float | None = None
        self._has_slept = False
        self._not_before = float("-inf")

    def begins(self, states: PowerStates, is_idle: bool, now: float) -> bool:
        """Return whether the GPUs are left alone from now on."""
        if not is_idle or not states or now < self._not_before:
            self._quiet_since = None
            return False
        if self._quiet_since is None:
            self._quiet_since = now
        if now - self._quiet_since < _QUIET_SECONDS or not self._may_sleep(states):
            return False
        self._begins, self._has_slept = True, False
        return True

    def lasts(self, states: PowerStates, now: float) -> bool:
        """Return whether they are still left alone: none was woken, and it is useful."""
        if self._begins:
            # NVML is closed in this tick, which may come long after the last one.
            self._begins, self._since = False, now
        if self._since is None:
            return False
        sleeping = any(state in SUSPENDED for state in states.values())
        woken = self._has_slept and not sleeping
        useless = not sleeping and now - self._since > _FALL_ASLEEP_SECONDS
        self._has_slept = self._has_slept or sleeping
        if woken or useless or not self._has_reason():
            self._since = self._quiet_since = None
            self._not_before = now + _RETRY_SECONDS if useless else now
            return False
        return True

    def _may_sleep(self, states: PowerStates) -> bool:
        return self._has_reason() and any(
            state == "active" and _read(f"{self._devices}/{address}/power/control") == "auto"
            for address, state in states.items()
        )

    def _has_reason(self) -> bool:
        """Whether the machine, rather than just a mouse, runs on battery, or has one on mains."""
        supplies = self._supplies
        names = _names(supplies)
        batteries = [name for name in names if _read(f"{supplies}/{name}/type") == "Battery"]
        own = [name for name in batteries if _read(f"{supplies}/{name}/scope") != "Device"]
        if self._on_mains:
            return bool(own)
        if any(_read(f"{supplies}/{name}/online") == "1" for name in set(names) - set(batteries)):
            return False
        return any(_read(f"{supplies}/{name}/status") == "Discharging" for name in own)


def _names(folder: str) -> Sequence[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return ()


def _read(path: str) -> str | None:
    text = read_start(path, _MAX_BYTES)
    return None if text is None else text.decode("utf-8", "surrogateescape").strip()
