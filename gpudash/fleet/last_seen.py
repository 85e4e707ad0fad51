"""Hosts, GPUs and jobs as they were seen last: what comes next is compared with that."""

from __future__ import annotations

from msgspec import Struct

from gpudash.model.fleet import Event, FleetDevice, FleetHost, HostKey
from gpudash.model.text import SafeText


class LastGpu(Struct):
    """A GPU as it was seen last."""

    index: int
    uuid: SafeText | None = None
    problem: str | None = None
    xid: int | None = None
    is_hot: bool = False
    jobs: tuple[SafeText, ...] = ()
    """Those that it had, or its MIG instances."""

    def is_like(self, device: FleetDevice, jobs: tuple[SafeText, ...], *, is_hot: bool) -> bool:
        """Whether a device that is well is as it was."""
        return (
            self.problem is None
            and device.index == self.index
            and device.state == "ok"
            and device.xid == self.xid
            and jobs == self.jobs
            and is_hot is self.is_hot
        )


class LastHost(Struct):
    """A host as it was seen last."""

    host: FleetHost
    is_down: bool
    gpus: dict[str, LastGpu] = {}
    """By their UUIDs; those that were lost, too."""
    has_lost: bool = False
    """Whether one of them is lost."""
    is_drained: bool | None = None
    """None while that is not known."""

    def gpu(self, device: FleetDevice) -> LastGpu | None:
        """Return which of its GPUs a device is, also one that had no UUID before."""
        found = self.gpus.get(device.key)
        if found is None and device.uuid is not None:
            found = self.gpus.pop(f"#{device.index}", None)
            if found is not None:
                found.uuid = device.uuid
                self.gpus[device.key] = found
        return found


class LastJob(Struct):
    """A job that runs: on how many devices of which hosts, as far as that is known."""

    hosts: frozenset[HostKey | str]
    devices: int
    user: SafeText | None = None
    is_scheduled: bool = False
    """Whether a scheduler says that it runs, and not only the labels of its devices."""
    missed: Event | None = None
    """That it has gone with all that it ran on; None while it runs."""
    is_over: bool = False
    """Whether that was reported, since nothing of it came back."""

    def is_lost(self, devices: int) -> bool:
        """Whether it has gone with its devices, of which so many are lost."""
        return not self.is_scheduled and 0 < self.devices <= devices
