"""The interfaces of a snapshot's origin: a source, and the operating system below it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from typing import Protocol

from msgspec import Struct

from gpudash.model.device import Device
from gpudash.model.fault import Fault
from gpudash.model.process import Holder, Lease, Process
from gpudash.model.snapshot import Host, Snapshot


class HostSource(Protocol):
    """A host that can be sampled repeatedly."""

    def sample(self) -> Snapshot:
        """Return the present state of the host.

        Raises DriverError if NVML cannot be used at all; a single bad device or value is part of
        the snapshot.
        """

    def close(self) -> None:
        """Release the driver; raises DriverError if a hanging call prevents it."""


class Holders(Struct, frozen=True):
    """The processes that have a GPU open although the driver does not list them."""

    found: tuple[Holder, ...]
    complete: bool
    """Whether all processes of the host were scanned."""
    left_out: int = 0
    """How many more there are."""


class HostReader(Protocol):
    """The operating system's half of a snapshot: the machine and its processes."""

    def host(self) -> Host:
        """Return the machine; the driver's versions are left None for NVML to fill in."""

    def processes(
        self, pids: Collection[int], listed_at: Mapping[int, float] | None = None
    ) -> dict[int, Process]:
        """Return one entry for every PID, with `devices` left empty.

        A process that started after its PID was `listed_at`, in seconds since boot, is another one:
        the listed one has exited. Inaccessible values are None; a process that is gone or hidden
        has a `hidden_reason`. Never raises.
        """

    def holders(self, minors: Collection[int], listed: Collection[int]) -> Mapping[int, Holders]:
        """Return who has the nodes of these GPUs open but is not `listed`, by minor number.

        A search takes time: a GPU for which it has found nothing yet is left out.
        """

    def begin(self) -> None:
        """Start slow reads, to be made in parallel with the driver's."""

    def leases(
        self, devices: Sequence[Device], processes: Sequence[Process], unlisted: Set[str]
    ) -> tuple[Lease, ...]:
        """Return who has reserved which of the GPUs; never raises.

        The processes on the `unlisted` GPUs, by UUID, are unknown.
        """

    def faults(self) -> tuple[Fault, ...]:
        """Return what keeps the reader from seeing everything, such as a PID namespace."""
