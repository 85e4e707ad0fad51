"""One GPU with all that is read of it, and what is shown of it while it cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import asdict, replace

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.bus import UNKNOWN, Bus, Identity, kernel_address
from gpudash.collect.nvml.device import DeviceReader
from gpudash.collect.nvml.library import Library
from gpudash.collect.nvml.mig import InstanceReader
from gpudash.collect.nvml.processes import Listing, ProcessReader
from gpudash.collect.nvml.worker import Task
from gpudash.model.device import Device, DeviceState
from gpudash.model.fault import Fault
from gpudash.model.state import is_left_alone
from gpudash.model.text import clean

NO_LISTING = Listing((), codes.SUCCESS, None)
SILENCE = Listing((), codes.TIMEOUT, None)
"""The processes of a GPU to which a call has not come back."""
UNASKED = Listing((), codes.INSUFFICIENT_RESOURCES, None)
"""The processes of a GPU that could not be asked."""

_LEFT_ALONE = clean("left alone so that it can fall asleep: on battery, and nothing to do")


class Look(Struct, frozen=True):
    """What one tick saw of a GPU."""

    device: Device
    instances: tuple[Device, ...]
    listing: Listing


class Gpu:
    """One GPU with all that is read of it on its own pace.

    While its task is out, the readers belong to the thread that is on it.
    """

    def __init__(
        self,
        library: Library,
        index: int,
        address: str | None,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
    ) -> None:
        self.address = address
        """Where the kernel sees it, `0000:1a:00.0`; None if that is not known."""
        self.identity = UNKNOWN
        """Who it is, by itself or by the kernel."""
        self.reader = DeviceReader(library, index, wall_clock)
        self.instance_reader = InstanceReader(library)
        self.processes = ProcessReader(library, self.reader, clock, wall_clock)
        self.device = Device(index=index)
        self.instances: tuple[Device, ...] = ()
        self.listing = NO_LISTING
        self.task: Task[Look] | None = None
        self.is_known = False
        """Whether it was ever read."""

    @property
    def is_pending(self) -> bool:
        """Whether a call to it has not come back."""
        return self.task is not None and self.task.is_pending

    @property
    def was_silent(self) -> bool:
        """Whether it was last not to be asked, so that its processes are not known."""
        return self.listing is SILENCE or self.listing is UNASKED

    @property
    def is_readable(self) -> bool:
        """Whether it can be asked now."""
        return not self.is_pending and self.reader.handle is not None

    def send(self, now: float, list_processes: bool) -> Task[Look]:
        """Return the task of this tick."""
        self.task = Task(lambda: self._look(now, list_processes), retry_of=self.task)
        return self.task

    def take(self, look: Look) -> None:
        """Show what the task brought."""
        self.device, self.instances, self.listing = look.device, look.instances, look.listing
        self.is_known = True
        if self.device.uuid not in (None, self.identity.uuid):
            self.identity = Identity(self.device.name, self.device.uuid)
        self.address = kernel_address(self.device.pci_bus_id) or self.address

    def name(self, identity: Identity) -> None:
        """Show who it is although it could not be read, even at first."""
        device = replace(
            self.device,
            pci_bus_id=self.device.pci_bus_id or self.address,
            name=self.device.name or identity.name,
            uuid=identity.uuid,
            fault=self.device.fault and replace(self.device.fault, uuid=identity.uuid),
        )
        self.device = self._reminded(device)

    @property
    def is_idle(self) -> bool:
        """Whether it sleeps, or computes nothing for nobody."""
        return is_left_alone(self.device) or (
            self.device.state == "ok"
            and self.device.gpu_utilization_percent == 0
            and not self.listing.code
            and not self.listing.entries
        )

    def sleep(self, identity: Identity, *, resting: bool = False) -> None:
        """Show it asleep, or as falling asleep, without a call that would wake it."""
        self.task = None
        device = self.reader.asleep(self.address, identity.name, identity.uuid)
        self.device = self._reminded(device)
        if resting:
            fault = Fault(source="nvml", uuid=self.device.uuid, message=_LEFT_ALONE)
            self.device = replace(self.device, state="resting", fault=fault)
        self.instances, self.listing = (), NO_LISTING

    def take_silence(self, identity: Identity, fault: Fault) -> None:
        """Show no values: those of before are not true any more."""
        uuid = self.reader.identity().get("uuid") or identity.uuid
        known = {"pci_bus_id": self.address, "name": identity.name}
        state = _state_of(fault)
        device = Device(
            index=self.reader.index,
            state=state,
            fault=replace(fault, uuid=uuid),
            **{**known, **self.reader.identity(), "uuid": uuid},
        )
        self.device = self._reminded(device)
        self.instances, self.listing = (), SILENCE if state == "not-answering" else UNASKED

    def _reminded(self, device: Device) -> Device:
        """Return it with the XIDs that an earlier collector left, while it cannot be read."""
        kept = self.reader.kept.get(device.uuid or "")
        if kept is None or device.xid_events is not None:
            return device
        return replace(device, xid_events=kept.xid_events)

    def _look(self, now: float, list_processes: bool) -> Look:
        device = self.reader.read(now)
        instances = self.instance_reader.read(self.reader.handle, device, now)
        listing = self.listing
        if self.reader.handle is None:
            listing = NO_LISTING
        elif list_processes:
            listing = self.processes.read(device, instances)
        unaccounted = _of_now(listing.unaccounted_bytes, device.memory_used_bytes)
        return Look(replace(device, memory_unaccounted_bytes=unaccounted), instances, listing)

    def close(self) -> None:
        """Give back what NVML lent, while it is still open."""
        self.reader.close()
        self.instance_reader.close()


def _of_now(unaccounted: int | None, used: int | None) -> int | None:
    """Return an amount found when the processes were last listed, None if it cannot be true now."""
    if unaccounted is None or used is None or unaccounted > used:
        return None
    return unaccounted


def _state_of(fault: Fault) -> DeviceState:
    """Return the state of a GPU without an answer: one that was not asked is not silent."""
    return "not-answering" if fault.code == codes.TIMEOUT else "failed"


def devices_on_bus(bus: Bus, addresses: Iterable[str], fault: Fault) -> tuple[Device, ...]:
    """Return the GPUs as the kernel shows them, all with the same fault."""
    return tuple(
        Device(
            index=index,
            pci_bus_id=clean(address),
            state=_state_of(fault),
            fault=fault,
            **asdict(bus.identity(address)),
        )
        for index, address in enumerate(addresses)
    )
