"""Hosts, GPUs and jobs as last seen, for comparison with the next snapshot."""

from __future__ import annotations

from msgspec import Struct

from gpudash.model.fleet import Event, FleetDevice, FleetHost, HostKey
from gpudash.model.text import SafeText


class LastGpu(Struct):
    """The last known state of a GPU."""

    index: int
    uuid: SafeText | None = None
    problem: str | None = None
    xid: int | None = None
    is_hot: bool = False
    jobs: tuple[SafeText, ...] = ()
    """The jobs of the GPU or its MIG instances."""

    def is_like(self, device: FleetDevice, jobs: tuple[SafeText, ...], *, is_hot: bool) -> bool:
        """Whether a healthy device is unchanged."""
        return (
            self.problem is None
            and device.index == self.index
            and device.state == "ok"
            and device.xid == self.xid
            and jobs == self.jobs
            and is_hot is self.is_hot
        )


class LastHost(Struct):
    """The last known state of a host."""

    host: FleetHost
    is_down: bool
    gpus: dict[str, LastGpu] = {}
    """By UUID, including lost GPUs."""
    has_lost: bool = False
    """Whether one of its GPUs is lost."""
    is_drained: bool | None = None
    """None if unknown."""

    def gpu(self, device: FleetDevice) -> LastGpu | None:
        """Return which of its GPUs a device is, even if that had no UUID before."""
        found = self.gpus.get(device.key)
        if found is None and device.uuid is not None:
            found = self.gpus.pop(f"#{device.index}", None)
            if found is not None:
                found.uuid = device.uuid
                self.gpus[device.key] = found
        return found


class LastJob(Struct):
    """A running job: on how many devices of which hosts, as far as known."""

    hosts: frozenset[HostKey | str]
    devices: int
    user: SafeText | None = None
    is_scheduled: bool = False
    """Whether a scheduler reports it, rather than only its devices' labels."""
    missed: Event | None = None
    """The event of its loss with all that it ran on; None while it runs."""
    is_over: bool = False
    """Whether its end was reported, since nothing of it came back."""

    def is_lost(self, devices: int) -> bool:
        """Whether it is gone with its devices, this many of which are lost."""
        return not self.is_scheduled and 0 < self.devices <= devices
