"""The short past that rules need: who worked when, and means over the last half minute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import exp

from msgspec import Struct

from gpudash.analysis.health.rule import lasted
from gpudash.analysis.labels import device_labels, gpu_ranges
from gpudash.model.device import Device
from gpudash.model.process import Process, ProcessDevice
from gpudash.model.snapshot import Snapshot

PROOF_SECONDS = 30.0
"""How long a share that is new or has worked must do nothing before it is called idle."""
_MEAN_SECONDS = 20.0


class ShareWork(Struct):
    """A process on one device: since when it has done nothing, and whether it ever worked."""

    idle_since: float | None = None
    worked: bool = False
    is_new: bool = False
    """Whether it came while it was watched: it may be about to begin."""

    def idle_seconds(self, now: float) -> float | None:
        """Return for how long it has done nothing; None if it works or that is not known.

        One that is new or has worked is not idle until it has paused for PROOF_SECONDS.
        """
        if self.idle_since is None:
            return None
        idle = lasted(now - self.idle_since)
        return None if (self.worked or self.is_new) and idle < PROOF_SECONDS else idle


class ProcessWork(Struct):
    """What is remembered of a process: means of its CPU time and its time in disk wait, in %.

    None where it was never told.
    """

    shares: dict[str | None, ShareWork]
    """Its work on each device, by UUID."""
    cpu_percent: float | None = None
    disk_wait_percent: float | None = None


class Work:
    """What is remembered of devices and processes from sample to sample."""

    def __init__(self) -> None:
        self.now = 0.0
        self._is_first = True
        self._processes: dict[tuple[int, float | None], ProcessWork] = {}
        self._devices: dict[str, float | None] = {}
        self._links: dict[str, int] = {}

    def see(self, now: float, snapshot: Snapshot) -> None:
        """Add a sample; what is no longer there is forgotten."""
        fresh = 1.0 if not self._devices else 1 - exp(-max(0.0, now - self.now) / _MEAN_SECONDS)
        self.now = now
        devices = {device.key: device for device in snapshot.devices if device.uuid}
        self._see_processes(snapshot.processes, devices, fresh)
        self._is_first = False
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

    def of(self, process: Process) -> ProcessWork:
        """Return what is remembered of a process of this sample."""
        return self._processes[process.key]

    def utilization_percent(self, device: Device) -> float | None:
        """Return the mean utilization over the last half minute or so."""
        return self._devices.get(device.uuid or "")

    def most_nvlinks(self, device: Device) -> int:
        """Return the most NVLinks that were seen up at once."""
        return self._links.get(device.uuid or "", 0)

    def _see_processes(
        self, processes: Sequence[Process], devices: Mapping[str, Device], fresh: float
    ) -> None:
        users = Counter([share.uuid for each in processes for share in each.devices])
        before, self._processes = self._processes, {}
        for process in processes:
            key = process.key
            known = before.get(key) or ProcessWork({})
            self._processes[key] = known
            waits = None if process.status is None else 100.0 * (process.status == "disk-sleep")
            known.cpu_percent = _mixed(known.cpu_percent, process.cpu_percent, fresh)
            known.disk_wait_percent = _mixed(known.disk_wait_percent, waits, fresh)
            shares, known.shares = known.shares, {}
            for share in process.devices:
                uuid = share.uuid
                work = shares.get(uuid) or ShareWork(is_new=not self._is_first)
                known.shares[uuid] = work
                self._see_share(work, _works(share, devices.get(uuid or ""), users[uuid] == 1))

    def _see_share(self, work: ShareWork, works: bool | None) -> None:
        if works:
            work.worked = True
        if works is not False:
            work.idle_since = None
        elif work.idle_since is None:
            work.idle_since = self.now


def _works(share: ProcessDevice, device: Device | None, alone: bool) -> bool | None:
    """Return whether a share does anything in this sample, None where that cannot be told.

    The driver samples one process at a time: one that it never met, alone on a busy GPU, works.
    """
    if (
        share.sm_utilization_percent
        or share.encoder_utilization_percent
        or share.decoder_utilization_percent
    ):
        return True
    if device is None or device.state != "ok":
        return None
    active, busy = device.sm_active_percent, device.gpu_utilization_percent
    if busy is None and active is not None:
        busy = round(active + 0.5) if active >= 1 else 0
    if busy:
        return True if alone else None if share.sm_utilization_percent is None else False
    return False if busy == 0 else None


def _mixed(before: float | None, value: float | None, fresh: float) -> float | None:
    """Return a running mean; what is not told leaves it as it was."""
    if value is None:
        return before
    return float(value) if before is None else before + (value - before) * fresh


_SERVICES = ("nvidia-cuda-mps", "nv-hostengine")
"""What MPS and DCGM run, which hold a little memory for others."""


class Hold(Struct, frozen=True):
    """A process on one device: for how long it has been idle there, None if it is not known to be.

    `works` says whether it was seen to compute there at all.
    """

    share: ProcessDevice
    device: Device
    idle_seconds: float | None
    works: bool


class Sight:
    """A snapshot with its lookups, and the short past."""

    def __init__(self, snapshot: Snapshot, work: Work, *, is_first: bool) -> None:
        self.snapshot = snapshot
        self.work = work
        self.is_first = is_first
        """Whether nothing was seen before: a rule that needs time can only tell what is now."""
        self.labels = device_labels(snapshot.devices)
        self.gpus = [d for d in snapshot.devices if not d.is_mig and d.state == "ok"]
        """The GPUs that can be read."""
        self._mig_labels = {d.key: self.labels[d.key] for d in snapshot.devices if d.is_mig}
        devices = {d.key: d for d in snapshot.devices if d.state == "ok"}
        self.holds = [
            (process, holds)
            for process in snapshot.processes
            if not (process.name or "").startswith(_SERVICES)
            and (holds := self._holds(process, devices))
        ]
        """The processes, each with the devices on which it computes.

        What draws on a display and computes besides, such as a browser, is left out there, and a
        service of the driver everywhere.
        """

    def name(self, device: Device) -> str:
        """Return what evidence calls a device: `GPU 0`, `GPU 0:1`."""
        return f"GPU {self.labels[device.key]}"

    def ranges(self, holds: list[Hold]) -> str:
        """Return the devices of holds as ranges: `0-7`."""
        return gpu_ranges((hold.share for hold in holds), self._mig_labels)

    def _holds(self, process: Process, devices: dict[str, Device]) -> list[Hold]:
        now, shares = self.work.now, self.work.of(process).shares
        return [
            Hold(share, device, work.idle_seconds(now), work.worked)
            for share in process.devices
            if share.type != "G"
            and (device := devices.get(share.uuid or "")) is not None
            and not (device.display_active and "G" in share.type)
            and (work := shares[share.uuid])
        ]
