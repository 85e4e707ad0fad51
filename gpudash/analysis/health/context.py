"""The input of checks: a sample with its lookups, and the recent activity of its processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import exp, inf
from typing import Literal

from msgspec import Struct

from gpudash.analysis.activity import (
    IDLE_PERCENT,
    PAUSE_SECONDS,
    RestClock,
    holds_memory,
    load_percent,
)
from gpudash.analysis.health.levels import BUSY_CPU_PERCENT, is_start_artifact
from gpudash.analysis.labels import gpu_ranges
from gpudash.model.device import Device, device_labels
from gpudash.model.process import Process, ProcessDevice
from gpudash.model.snapshot import Snapshot
from gpudash.model.units import floor_tenths

_START_SECONDS = 30.0
"""How long a new process must do nothing until it counts as idle."""
_MEAN_SECONDS = 20.0
_RESTING_CPU_PERCENT = 10.0
"""Below this, work on a CPU that began at BUSY_CPU_PERCENT has ended: hysteresis."""
DISK_WAIT_PERCENT = 50.0
_MIN_PERCENT = 2
"""Mean utilization below which a process that is busy on the host does not use a GPU."""
_SERVICES = ("nvidia-cuda-mps", "nv-hostengine")
"""Daemons of MPS and DCGM, which hold a little memory for others."""


class ShareActivity(Struct):
    """A process on one device: since when it has not used it, and whether it ever did."""

    unused_since: float | None = None
    worked: bool = False
    is_new: bool = False
    """Whether it appeared after the first sample: it may be about to start work."""

    def unused_seconds(self, now: float) -> float | None:
        """Return for how long it has not used the device; None if it does or if unknown.

        A process that has worked still uses it during a pause, and a new one while it may be
        starting.
        """
        if self.unused_since is None:
            return None
        unused = floor_tenths(now - self.unused_since)
        pause = PAUSE_SECONDS if self.worked else _START_SECONDS if self.is_new else 0.0
        return None if unused < pause else unused


class ProcessActivity(Struct):
    """A process's mean CPU time and disk wait time, in %; None if never reported."""

    shares: dict[str | None, ShareActivity]
    """Its activity on each device, by UUID."""
    cpu_percent: float | None = None
    is_since_start: bool = True
    """Whether this is the CPU share since the process started, rather than a mean."""
    disk_wait_percent: float | None = None
    on_host: Literal["", "cpu", "disk"] = ""
    """Its activity on the host: work on a CPU, wait for a disk, or none."""
    on_host_at: float | None = None
    """When that last was not none, None for never."""

    def idle_seconds(self, now: float) -> float | None:
        """Return for how long it has used none of its devices, including pauses.

        None if it uses one or if unknown.
        """
        since = [share.unused_since for share in self.shares.values()]
        known = [each for each in since if each is not None]
        return floor_tenths(now - max(known)) if known and len(known) == len(since) else None

    @property
    def may_work(self) -> bool:
        """Whether it used a CPU since it started, and may still do so."""
        return self.is_since_start and (self.cpu_percent or 0.0) >= BUSY_CPU_PERCENT

    def add(self, process: Process, now: float, fresh: float, *, is_first: bool) -> None:
        """Add a sample of its activity on the host."""
        waits = None if process.status is None else 100.0 * (process.status == "disk-sleep")
        self.disk_wait_percent = _mixed(self.disk_wait_percent, waits, fresh)
        before = None if self.is_since_start else self.cpu_percent
        self.cpu_percent = _mixed(before, process.cpu_percent, fresh)
        self.is_since_start = is_first
        threshold = _RESTING_CPU_PERCENT if self.on_host == "cpu" else BUSY_CPU_PERCENT
        works = (self.cpu_percent or 0.0) >= threshold
        if works and (not self.is_since_start or process.status == "running"):
            self.on_host = "cpu"
        else:
            is_waiting = (self.disk_wait_percent or 0.0) >= DISK_WAIT_PERCENT
            self.on_host = "disk" if is_waiting else ""
        if self.on_host:
            self.on_host_at = now


class ActivityTracker:
    """The recent activity of devices and processes, from sample to sample."""

    def __init__(self) -> None:
        self.now = 0.0
        self._is_first = True
        self._processes: dict[tuple[int, float | None], ProcessActivity] = {}
        self._devices: dict[str, float | None] = {}
        self._links: dict[str, int] = {}
        self._rests = RestClock()
        self._idle: dict[str, float | None] = {}

    def add(self, now: float, snapshot: Snapshot) -> None:
        """Add a sample; processes and devices not in it are forgotten."""
        fresh = 1.0 if not self._devices else 1 - exp(-max(0.0, now - self.now) / _MEAN_SECONDS)
        self.now = now
        devices = {device.key: device for device in snapshot.devices if device.uuid}
        self._add_processes(snapshot.processes, devices, fresh)
        self._is_first = False
        self._add_rests(snapshot)
        known, links = self._devices, self._links
        self._devices = {
            key: _mixed(known.get(key), device.gpu_utilization_percent, fresh)
            for key, device in devices.items()
        }
        self._links = {
            key: max(links.get(key, 0), device.nvlink_count)
            for key, device in devices.items()
            if device.nvlink_count is not None
        }

    def of(self, process: Process) -> ProcessActivity:
        """Return the activity of a process of the last sample."""
        return self._processes[process.key]

    def idle_seconds(self, device: Device) -> float | None:
        """Return how long a device has not computed, at least; None if it does or if unknown."""
        return self._idle.get(device.key)

    def process_idle_seconds(self, process: Process) -> float | None:
        """Return how long a process has used none of its devices; None if it holds none."""
        if process.used_gpu_memory_bytes == 0:
            return None
        return self.of(process).idle_seconds(self.now)

    def utilization_percent(self, device: Device) -> float | None:
        """Return the mean utilization over the last half minute or so."""
        return self._devices.get(device.uuid or "")

    def max_nvlinks(self, device: Device) -> int:
        """Return the highest number of NVLinks that were ever up at once."""
        return self._links.get(device.uuid or "", 0)

    def _add_rests(self, snapshot: Snapshot) -> None:
        held = {share.uuid for each in snapshot.processes for share in each.devices}
        self._rests.begin()
        self._idle = {
            device.key: self._rests.idle_seconds(
                device.key,
                device,
                self.now,
                is_held=device.uuid in held or holds_memory(device),
            )
            for device in snapshot.devices
            if device.state == "ok"
        }

    def _add_processes(
        self, processes: Sequence[Process], devices: Mapping[str, Device], fresh: float
    ) -> None:
        users = Counter([share.uuid for each in processes for share in each.devices])
        before, self._processes = self._processes, {}
        for process in processes:
            key = process.key
            known = before.get(key) or ProcessActivity({})
            self._processes[key] = known
            known.add(process, self.now, fresh, is_first=key not in before)
            shares, known.shares = known.shares, {}
            for share in process.devices:
                uuid = share.uuid
                activity = shares.get(uuid) or ShareActivity(is_new=not self._is_first)
                known.shares[uuid] = activity
                works = _works(share, devices.get(uuid or ""), alone=users[uuid] == 1)
                self._add_share(activity, works)

    def _add_share(self, activity: ShareActivity, works: bool | None) -> None:
        if works:
            activity.worked = True
        if works is not False:
            activity.unused_since = None
        elif activity.unused_since is None:
            activity.unused_since = self.now


def _works(share: ProcessDevice, device: Device | None, *, alone: bool) -> bool | None:
    """Return whether a process uses a device in this sample, None if unknown.

    The driver samples one process at a time: one without samples, alone on a busy GPU, uses it.
    """
    if (
        share.sm_utilization_percent
        or share.encoder_utilization_percent
        or share.decoder_utilization_percent
    ):
        return True
    if device is None or device.state != "ok":
        return None
    percent = load_percent(device)
    if percent is None:
        return None
    if percent >= IDLE_PERCENT:
        return True if alone else None if share.sm_utilization_percent is None else False
    return False


def _mixed(before: float | None, value: float | None, fresh: float) -> float | None:
    """Return a running mean; an unknown value does not change it."""
    if value is None:
        return before
    return float(value) if before is None else before + (value - before) * fresh


class Hold(Struct, frozen=True):
    """A process on one device."""

    share: ProcessDevice
    device: Device
    unused_seconds: float | None
    """How long it has not used it, None if it may use it."""
    idle_seconds: float | None
    """How long it has been idle on the host too, None if it may be active."""
    works: bool
    """Whether it was ever seen to compute there."""


class RuleContext:
    """The input of a check: a snapshot with its lookups, and the recent activity."""

    def __init__(self, snapshot: Snapshot, activity: ActivityTracker, *, is_first: bool) -> None:
        self.snapshot = snapshot
        self.activity = activity
        self.is_first = is_first
        """Whether this is the first sample, in which no duration is known."""
        self.labels = device_labels(snapshot.devices)
        self.gpus = [d for d in snapshot.devices if not d.is_mig and d.state == "ok"]
        """The readable GPUs."""
        self._mig_labels = {d.key: self.labels[d.key] for d in snapshot.devices if d.is_mig}
        devices = {d.key: d for d in snapshot.devices if d.state == "ok"}
        self.holds = [
            (process, holds)
            for process in snapshot.processes
            if not (process.name or "").startswith(_SERVICES)
            and (holds := self._holds(process, devices))
        ]
        """The processes, each with the devices on which it computes.

        A process that also draws on a display, such as a browser, is left out on that device, and
        daemons of the driver on all.
        """
        self._computing = {
            share.uuid for p in snapshot.processes for share in p.devices if share.type != "G"
        }

    def is_only_started(self, device: Device) -> bool:
        """Whether the utilization of a device is only an artifact of its driver's start."""
        snapshot = self.snapshot
        is_unsure = snapshot.brief or any(each.source == "processes" for each in snapshot.errors)
        return is_start_artifact(device, has_processes=is_unsure or device.uuid in self._computing)

    def working(self, process: Process, holds: Sequence[Hold]) -> list[Hold]:
        """Return where a process works.

        Nowhere if it is busy on the host and used the GPU only for a moment: it may be loading or
        compiling after its first GPU call.
        """
        working = [hold for hold in holds if hold.unused_seconds is None]
        if self.activity.of(process).on_host:
            means = [self.activity.utilization_percent(hold.device) for hold in working]
            if all(mean is not None and mean < _MIN_PERCENT for mean in means):
                return []
        return working

    def is_new(self, process: Process) -> bool:
        """Whether a process appeared after the first sample."""
        return any(share.is_new for share in self.activity.of(process).shares.values())

    def name(self, device: Device) -> str:
        """Return the name of a device in evidence: `GPU 0`, `GPU 0:1`."""
        return f"GPU {self.labels[device.key]}"

    def ranges(self, holds: list[Hold]) -> str:
        """Return the devices of holds as ranges: `0-7`."""
        return gpu_ranges((hold.share for hold in holds), self._mig_labels)

    def _holds(self, process: Process, devices: dict[str, Device]) -> list[Hold]:
        now, activity = self.activity.now, self.activity.of(process)
        rested = inf if activity.on_host_at is None else floor_tenths(now - activity.on_host_at)
        holds = []
        for share in process.devices:
            device = devices.get(share.uuid or "")
            if share.type == "G" or device is None or (device.display_active and "G" in share.type):
                continue
            on_device = activity.shares[share.uuid]
            unused = on_device.unused_seconds(now)
            idle = None if unused is None or activity.on_host else min(unused, rested)
            holds.append(Hold(share, device, unused, idle, on_device.worked))
        return holds
