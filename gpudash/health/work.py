"""The short past that rules need: who worked when, and means over the last half minute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import exp

from msgspec import Struct

from gpudash.snapshot import Device, Process, ProcessDevice, Snapshot

PROOF_SECONDS = 30.0
"""How long a share that has worked must do nothing before it is called idle."""
_MEAN_SECONDS = 20.0

ShareKey = tuple[int, float | None, str | None]


class _Share(Struct, frozen=True):
    """A process on one device: since when it has done nothing, and whether it ever worked."""

    idle_since: float | None
    worked: bool


class Mean(Struct, frozen=True):
    """Means of a device: its utilization; of a process: CPU time, and share of time in disk wait.

    None where it was never told.
    """

    first: float | None
    second: float | None = None


class Work:
    """What is remembered of devices and processes from sample to sample."""

    def __init__(self) -> None:
        self.now = 0.0
        self._shares: dict[ShareKey, _Share] = {}
        self._processes: dict[tuple[int, float | None], Mean] = {}
        self._devices: dict[str, Mean] = {}
        self._links: dict[str, int] = {}

    def see(self, now: float, snapshot: Snapshot) -> None:
        """Add a sample; what is no longer there is forgotten."""
        fresh = 1.0 if not self._devices else 1 - exp(-max(0.0, now - self.now) / _MEAN_SECONDS)
        self.now = now
        devices = {device.key: device for device in snapshot.devices if device.uuid}
        users = Counter(share.uuid for each in snapshot.processes for share in each.devices)
        self._shares = {
            (*process.key, share.uuid): self._share(process, share, devices, users)
            for process in snapshot.processes
            for share in process.devices
        }
        self._processes = {p.key: self._process_mean(p, fresh) for p in snapshot.processes}
        known, links = self._devices, self._links
        self._devices = {
            key: Mean(_mixed(_before(known, key), device.gpu_utilization_percent, fresh))
            for key, device in devices.items()
        }
        self._links = {
            key: max(links.get(key, 0), device.nvlink_count)
            for key, device in devices.items()
            if device.nvlink_count is not None
        }

    def idle_seconds(self, process: Process, share: ProcessDevice) -> float | None:
        """Return for how long a share has done nothing; None if it works or that is not known.

        One that worked before is not idle until it has paused for PROOF_SECONDS.
        """
        past = self._shares.get((*process.key, share.uuid))
        if past is None or past.idle_since is None:
            return None
        idle = self.now - past.idle_since
        return None if past.worked and idle < PROOF_SECONDS else idle

    def has_worked(self, process: Process, share: ProcessDevice) -> bool:
        """Return whether a share was ever seen to work."""
        past = self._shares.get((*process.key, share.uuid))
        return past is not None and past.worked

    def utilization_percent(self, device: Device) -> float | None:
        """Return the mean utilization over the last half minute or so."""
        return self._devices.get(device.uuid or "", Mean(None)).first

    def host_work(self, process: Process) -> Mean:
        """Return the mean CPU percentage of a process, and of its time the share in disk wait."""
        return self._processes.get(process.key, Mean(None))

    def most_nvlinks(self, device: Device) -> int:
        """Return the most NVLinks that were seen up at once."""
        return self._links.get(device.uuid or "", 0)

    def _share(
        self,
        process: Process,
        share: ProcessDevice,
        devices: Mapping[str, Device],
        users: Mapping[str | None, int],
    ) -> _Share:
        before = self._shares.get((*process.key, share.uuid))
        worked = before is not None and before.worked
        works = _works(share, devices.get(share.uuid or ""), users[share.uuid] == 1)
        if works is None:
            return _Share(None, worked)
        if works:
            return _Share(None, True)
        since = None if before is None else before.idle_since
        return _Share(self.now if since is None else since, worked)

    def _process_mean(self, process: Process, fresh: float) -> Mean:
        before = self._processes.get(process.key, Mean(None))
        waits = None if process.status is None else 100.0 * (process.status == "disk-sleep")
        return Mean(
            _mixed(before.first, process.cpu_percent, fresh), _mixed(before.second, waits, fresh)
        )


def _works(share: ProcessDevice, device: Device | None, alone: bool) -> bool | None:
    """Return whether a share does anything in this sample, None where that cannot be told.

    The driver samples one process at a time: one that it never met, alone on a busy GPU, works.
    """
    engines = share.encoder_utilization_percent, share.decoder_utilization_percent
    if share.sm_utilization_percent or any(engines):
        return True
    if device is None or device.state != "ok":
        return None
    active, busy = device.sm_active_percent, device.gpu_utilization_percent
    if busy is None and active is not None:
        busy = round(active + 0.5) if active >= 1 else 0
    if busy:
        return True if alone else None if share.sm_utilization_percent is None else False
    return False if busy == 0 else None


def _before(known: Mapping[str, Mean], key: str) -> float | None:
    mean = known.get(key)
    return None if mean is None else mean.first


def _mixed(before: float | None, value: float | None, fresh: float) -> float | None:
    """Return a running mean; what is not told leaves it as it was."""
    if value is None:
        return before
    return float(value) if before is None else before + (value - before) * fresh
