"""The activity of a GPU or a MIG instance, from any source, with all of its thresholds."""

from __future__ import annotations

from gpudash.model.device import AnyDevice, Device
from gpudash.model.state import BUSY, FREE, HELD, IN_USE, UNKNOWN, State
from gpudash.model.units import floor_tenths

BUSY_PERCENT = 5.0
"""Utilization from which a GPU counts as computing: a display alone takes a few percent."""
IDLE_PERCENT = 1.0
"""Utilization below which it counts as idle: NVML reports whole percents."""
PAUSE_SECONDS = 300.0
"""A shorter rest is a pause: jobs load, save, evaluate."""
NOTABLE_BYTES = 1 << 30
"""Memory in use that holds a GPU: drivers, displays and empty contexts take up to this."""
_NOTABLE_SHARE = 0.05


def activity(device: AnyDevice, *, is_held: bool, is_idle: bool) -> State:
    """Return what a device does: busy, held idle, in use, free or unknown.

    `is_held` says whether processes, a job or notable memory occupy it, `is_idle` whether its
    holders are known to do nothing. An unknown utilization does not count as 0 %, except for a MIG
    instance, whose utilization the driver never reports.
    """
    percent = load_percent(device)
    if percent is not None and percent >= BUSY_PERCENT:
        return BUSY
    if is_held:
        return HELD if is_idle and percent is not None and percent < IDLE_PERCENT else IN_USE
    if device.memory_used_bytes is None or (percent is None and device.parent_uuid is None):
        return UNKNOWN
    return FREE


def load_percent(device: AnyDevice) -> float | None:
    """Return the utilization, or the SM activity of a MIG instance; None if neither is known."""
    used = device.gpu_utilization_percent
    return device.sm_active_percent if used is None else used


def notable(amount: float | None, total: float | None) -> bool:
    """Return whether an amount of a device's total memory holds it: 1 GiB or 5 %."""
    if amount is None:
        return False
    return amount >= NOTABLE_BYTES or bool(total and amount >= _NOTABLE_SHARE * total)


def has_host_pages(device: Device) -> bool:
    """Whether the memory is part of the host's, as on Grace Hopper.

    Drivers before R580 do not report the addressing mode, but they report the link to the CPU.
    """
    is_linked = device.addressing_mode is None and bool(device.c2c_mode)
    return is_linked or device.addressing_mode == "ats"


def holds_memory(device: Device) -> bool:
    """Whether the memory in use on a device of this host shows that it is held.

    It does not if the memory is the host's, or if the host keeps pages in it.
    """
    if device.unified_memory or has_host_pages(device):
        return False
    return notable(device.memory_used_bytes, device.memory_total_bytes)


def is_rest(idle_seconds: float | None) -> bool:
    """Whether a device has not computed for longer than a job pauses."""
    return idle_seconds is not None and idle_seconds >= PAUSE_SECONDS


class Rest:
    """Since when a device has not computed and has been held, updated as it is watched."""

    __slots__ = ("_held_at", "_idle_at", "_is_known")

    def __init__(self) -> None:
        self._idle_at: float | None = None
        self._held_at: float | None = None
        self._is_known = False

    def use(self, percent: float | None, now: float) -> None:
        """Add a utilization; None does not count as 0 %."""
        if percent is None or percent >= IDLE_PERCENT:
            self._idle_at = None
            if self.is_held_long:
                # Its next rest begins later.
                self._held_at = now
        elif self._idle_at is None:
            self._idle_at = now

    def hold(self, now: float, *, is_held: bool, since: float | None = None) -> None:
        """Set whether it is held; `since` applies to one that was held when first seen."""
        if not is_held:
            self._held_at = None
        elif self._held_at is None:
            self._held_at = now if since is None or self._is_known else since
        self._is_known = True

    def extend(self, *, idle_at: float | None = None, held_at: float | None = None) -> None:
        """Add earlier times since which it is known to have rested or been held."""
        if idle_at is not None and self._idle_at is not None:
            self._idle_at = min(self._idle_at, idle_at)
        if held_at is not None:
            self._held_at = held_at if self._held_at is None else min(self._held_at, held_at)

    @property
    def is_held_long(self) -> bool:
        """Whether it was held when first seen, since an unknown time."""
        return self._held_at == 0.0

    def begin(self, at: float) -> None:
        """Set the time since which it has rested and been held, and not longer."""
        self.extend(idle_at=at)
        self._held_at = at

    def follow(self, before: Rest) -> None:
        """Take over the times that it had under another name."""
        self.extend(idle_at=before._idle_at, held_at=before._held_at)

    def seconds(self, now: float) -> float | None:
        """Return how long it has not computed, at least; None if it does or if unknown.

        For its present holder, the time in which it was free does not count.
        """
        if self._idle_at is None:
            return None
        since = self._idle_at if self._held_at is None else max(self._idle_at, self._held_at)
        return max(0.0, now - since)


class RestClock:
    """The rest times of devices, from sample to sample."""

    def __init__(self) -> None:
        self._rests: dict[str, Rest] = {}
        self._before = self._rests

    def begin(self) -> None:
        """Begin another sample: devices that are not in it are forgotten."""
        self._before, self._rests = self._rests, {}

    def idle_seconds(
        self, key: str, device: AnyDevice, now: float, *, is_held: bool
    ) -> float | None:
        """Return how long a device has not computed, at least; None if it does or if unknown."""
        percent = load_percent(device)
        if percent is None or percent >= IDLE_PERCENT:
            # Its next holding begins later, like its rest.
            return None
        rest = self._rests[key] = self._before.get(key) or Rest()
        rest.use(percent, now)
        rest.hold(now, is_held=is_held)
        seconds = rest.seconds(now)
        return None if seconds is None else floor_tenths(seconds)
