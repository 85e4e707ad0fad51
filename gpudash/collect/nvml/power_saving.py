"""When the GPUs of a laptop are left alone: on battery, with nothing to do, so that they sleep.

Being a client of the driver is enough to keep a GPU awake, which costs some watts. The files that
are read here wake nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

_QUIET_SECONDS = 30.0
"""For how long nothing must have happened."""
_FALL_ASLEEP_SECONDS = 30.0
"""After which somebody else is found to keep the GPU awake: then nothing is won by not looking."""
_AGAIN_SECONDS = 600.0
SUSPENDED = frozenset({"suspended", "suspending"})

States = Mapping[str, str]
"""Runtime power status by PCI address."""


class Rest:
    """Whether to look at the GPUs, from tick to tick."""

    def __init__(
        self, supplies: str = "/sys/class/power_supply", devices: str = "/sys/bus/pci/devices"
    ) -> None:
        self._supplies = supplies
        self._devices = devices
        self._quiet_since: float | None = None
        self._since: float | None = None
        self._has_slept = False
        self._not_before = float("-inf")

    def begins(self, states: States, is_idle: bool, now: float) -> bool:
        """Return whether to look no more from now on."""
        if not is_idle or not states or now < self._not_before:
            self._quiet_since = None
            return False
        if self._quiet_since is None:
            self._quiet_since = now
        if now - self._quiet_since < _QUIET_SECONDS or not self._may_sleep(states):
            return False
        self._since, self._has_slept = now, False
        return True

    def lasts(self, states: States, now: float) -> bool:
        """Return whether to go on not looking: nobody woke a GPU, and it is worth it."""
        if self._since is None:
            return False
        sleeping = any(state in SUSPENDED for state in states.values())
        woken = self._has_slept and not sleeping
        in_vain = not sleeping and now - self._since > _FALL_ASLEEP_SECONDS
        self._has_slept = self._has_slept or sleeping
        if woken or in_vain or not _on_battery(self._supplies):
            self._since = self._quiet_since = None
            self._not_before = now + _AGAIN_SECONDS if in_vain else now
            return False
        return True

    def _may_sleep(self, states: States) -> bool:
        return _on_battery(self._supplies) and any(
            state == "active" and _read(self._devices, address, "power/control") == "auto"
            for address, state in states.items()
        )


def _on_battery(supplies: str) -> bool:
    """Whether the machine, and not only a mouse, draws on a battery."""
    names = _names(supplies)
    kinds = {name: _read(supplies, name, "type") for name in names}
    if any(kinds[name] != "Battery" and _read(supplies, name, "online") == "1" for name in names):
        return False
    return any(
        kinds[name] == "Battery"
        and _read(supplies, name, "scope") != "Device"
        and _read(supplies, name, "status") == "Discharging"
        for name in names
    )


def _names(folder: str) -> Iterable[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return ()


def _read(*path: str) -> str | None:
    try:
        with open(os.path.join(*path), encoding="utf-8", errors="replace") as file:
            return file.read(64).strip()
    except OSError:
        return None
