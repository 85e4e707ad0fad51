"""One sample as the rules look at it, with what was seen before."""

from __future__ import annotations

from msgspec import Struct

from gpudash.analysis.health.context import Work
from gpudash.analysis.labels import device_labels, gpu_ranges
from gpudash.model.device import Device
from gpudash.model.process import Process, ProcessDevice
from gpudash.model.snapshot import Snapshot

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
