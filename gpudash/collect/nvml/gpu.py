"""One GPU from tick to tick: its readings, and what is shown while it is unreadable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.bus import UNKNOWN, Bus, Identity
from gpudash.collect.nvml.calls import IDENTITY, RETRY_SECONDS, STATIC
from gpudash.collect.nvml.device import DeviceSampler
from gpudash.collect.nvml.library import DeviceLost, Library
from gpudash.collect.nvml.mig import InstanceReader
from gpudash.collect.nvml.processes import GpuProcesses, GpuProcessReader
from gpudash.collect.nvml.worker import Task
from gpudash.model.device import Device, DeviceState
from gpudash.model.fault import Fault, XidEvent
from gpudash.model.process import LastProcess, LastRead
from gpudash.model.state import is_suspended_on_purpose
from gpudash.model.text import clean
from gpudash.model.units import sum_known
from gpudash.system.pci import kernel_address, nvml_address

if TYPE_CHECKING:
    from gpudash.collect.nvml.xids import XidWatch

NO_PROCESSES = GpuProcesses((), codes.SUCCESS, None)
_UNANSWERED = GpuProcesses((), codes.TIMEOUT, None)
"""The processes of a GPU on which a call hangs."""
_UNREAD = GpuProcesses((), codes.INSUFFICIENT_RESOURCES, None)
"""The processes of a GPU for which there was no thread."""

_MAX_LAST_PROCESSES = 16

_LEFT_ALONE = clean("left alone so that it can fall asleep: it has nothing to do")
_IDENTITY = frozenset(field for call in (*IDENTITY, *STATIC) for field, _ in call.fields)

_RESET_CODES = frozenset({codes.GPU_IS_LOST, codes.RESET_REQUIRED, codes.UNINITIALIZED})
"""Answers of a GPU that is only readable again after a reset or a reload of the driver."""
_RISING = ("total_energy_mj", "pcie_replay_count")
"""Counters since the driver took over the GPU, which nothing else resets."""
_MENDED = ("remapped_rows_pending", "retired_pages_pending")
"""Values that a reset clears."""
_OUT = frozenset({"lost", "reset-required"})
"""States from which only a reset recovers a GPU."""
_RESETS = frozenset({"gpu-reset", "drain-and-reset", "bus-reset", "node-reboot", "system-reboot"})


class GpuSample(Struct, frozen=True):
    """The values of one GPU in one tick."""

    device: Device
    instances: tuple[Device, ...]
    listing: GpuProcesses
    brief: bool


class LastSample(Struct, frozen=True):
    """A GPU's last answers and their time, in seconds of the reader's clock."""

    sample: GpuSample
    read_at: float

    @property
    def pids(self) -> dict[int, float]:
        """The processes that were listed, and when."""
        listing = self.sample.listing
        return {pid: listing.listed_at for pid, _ in listing.entries}

    def memory(self, now: float) -> LastRead:
        """Return what is still useful: the memory, and the processes by PID only."""
        device, listing = self.sample.device, self.sample.listing
        used: dict[int, int | None] = {}
        for pid, entry in listing.entries:
            used[pid] = sum_known((used.get(pid), entry.used_gpu_memory_bytes))
        largest = sorted(used, key=lambda pid: (-(used[pid] or 0), pid))
        read_at = min(self.read_at, listing.listed_at) if used else self.read_at
        return LastRead(
            age_seconds=max(0.0, now - read_at),
            memory_used_bytes=device.memory_used_bytes,
            memory_total_bytes=device.memory_total_bytes,
            processes=tuple(
                LastProcess(pid=pid, used_gpu_memory_bytes=used[pid])
                for pid in largest[:_MAX_LAST_PROCESSES]
            ),
        )


class GpuReader:
    """A GPU by its NVML index, with its instances and processes, across the loss of its handle.

    While a task runs, it belongs to the thread of that task.
    """

    def __init__(
        self,
        library: Library,
        index: int,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
    ) -> None:
        self.index = index
        self.handle: Any = None
        self.openings = 0
        """How often its handle was obtained: a new one may support what an earlier one refused."""
        self.handed_over: dict[str, Device] = {}
        """An earlier collector's knowledge of each GPU, by UUID."""
        self.xid_watches: list[XidWatch] = []
        """The watches of all GPUs, each of which may fetch events of another."""
        self._library = library
        self._wall_clock = wall_clock
        self._instances = InstanceReader(library)
        self._processes = GpuProcessReader(library, clock, wall_clock)
        self._sampler: DeviceSampler | None = None
        self._old_samplers: list[DeviceSampler] = []
        """Samplers of earlier handles, until what NVML allocated for them is freed."""
        self._known: dict[str, Any] = {}
        """Its identity by earlier handles."""
        self._xids: XidWatch | None = None
        self._before: dict[str, Any] = {}
        """The last values of earlier handles, by which a reset is recognised."""
        self._failed_with = codes.SUCCESS
        """The code with which the GPU failed before its handle was last obtained."""
        self._retry_at = 0.0
        self._state: DeviceState = "ok"
        self._fault: Fault | None = None

    def read(
        self, now: float, known: GpuProcesses | None = None, *, brief: bool = False
    ) -> GpuSample:
        """Read the values due at `now` (seconds), with `brief` only the most important.

        The processes are listed unless a `known` listing is still valid. Never raises.
        """
        is_outdated = self._sampler is not None and self._sampler.is_outdated
        if is_outdated or (self._sampler is None and now >= self._retry_at):
            self._open(now)
        if self._sampler is not None:
            self._sample(self._sampler, now, brief=brief)
        values = self._known if self._sampler is None else self._sampler.values
        instances = self._instances.read(self.handle, values, now)
        if self.handle is None:
            listing = NO_PROCESSES
        else:
            listing = known or self._processes.read(self.handle, self.index, values, instances)
        used = values.get("memory_used_bytes")
        device = self._library.device_class(
            index=self.index,
            state=self._state,
            fault=self._fault,
            memory_unaccounted_bytes=_of_now(listing.unaccounted_bytes, used),
            xid_events=self._xid_events,
            **values,
        )
        return GpuSample(device, instances, listing, brief)

    @property
    def active_links(self) -> tuple[int, ...]:
        """Return the numbers of the NVLinks that were up when they were last read."""
        return () if self._sampler is None else self._sampler.active_links

    def identity(self) -> dict[str, Any]:
        """Return its invariable data, even while a task runs."""
        sampler = self._sampler
        values = self._known if sampler is None else sampler.values
        return {**_identity(values), "xid_events": self._xid_events}

    def reopen(self, index: int) -> None:
        """Obtain the handle again at the next read: the old one died with the driver."""
        self.index = index
        self.forget_handle()

    def close(self) -> None:
        """Free what NVML allocated, while it is still open."""
        self._close_samplers()
        self._instances.close()

    def on_driver_reload(self) -> None:
        """Mark earlier reports as before a reset: the driver was reloaded."""
        if self._xids is not None:
            self._xids.mark_before_reset()

    def forget_handle(self) -> None:
        """Keep the known data, and obtain a handle again at the next read."""
        sampler = self._sampler
        if sampler is not None:
            self._keep_identity(sampler.values)
            self._old_samplers.append(sampler)
            if self._xids is not None:
                values = sampler.values.items()
                self._before.update((name, value) for name, value in values if value is not None)
        self.handle, self._sampler = None, None
        self._retry_at = 0.0

    def _keep_identity(self, values: dict[str, Any]) -> None:
        """Add the data from a handle; another GPU in the same slot has its own identity."""
        known = {field: value for field, value in _identity(values).items() if value is not None}
        is_same = known.get("uuid") in (None, self._known.get("uuid"))
        self._known = {**self._known, **known} if is_same else known

    @property
    def _xid_events(self) -> tuple[XidEvent, ...] | None:
        return None if self._xids is None else self._xids.events

    def _open(self, now: float) -> None:
        handle, code = self._library.call("nvmlDeviceGetHandleByIndex", self.index)
        if code:
            self._fail(code, now)
            return
        self.forget_handle()
        self._close_samplers()
        self._failed_with = (self._fault.code if self._fault else None) or codes.SUCCESS
        self.handle, self._state, self._fault = handle, "ok", None
        self.openings += 1
        self._processes.forget_refusals()
        self._sampler = DeviceSampler(self._library, handle)

    def _fail(self, code: int, now: float) -> None:
        """Mark the GPU as failed with `code`; it is retried after a while."""
        self.forget_handle()
        self._close_samplers()
        self._retry_at = now + RETRY_SECONDS
        self._state = _state_by_code(code)
        self._fault = Fault(
            source="nvml",
            code=code,
            uuid=self._known.get("uuid"),
            message=clean(codes.device_message(self.index, code)),
        )

    def _close_samplers(self) -> None:
        for sampler in (*self._old_samplers, self._sampler):
            if sampler is not None:
                sampler.close()
        self._old_samplers.clear()
        if self._xids is not None:
            self._xids.close()

    def _sample(self, sampler: DeviceSampler, now: float, *, brief: bool) -> None:
        is_new = not sampler.samples
        if not is_new:
            self._fetch_xids(now)
        try:
            if brief:
                sampler.sample_briefly(now)
            else:
                sampler.sample(now)
        except DeviceLost as lost:
            self._fail(lost.code, now)
            return
        if is_new and not brief:
            before = self.handed_over.pop(sampler.values.get("uuid") or "", None)
            if before is not None:
                self._continue_from(before)
            if self._xids is not None:
                self._recognise_reset(self._xids, sampler.values)
                self._fetch_xids(now)

    def _continue_from(self, before: Device) -> None:
        """Continue where an earlier collector ended."""
        from gpudash.collect.nvml.xids import XidWatch

        self._xids = self._xids or XidWatch(
            self._library, self._wall_clock, self.xid_watches, before.xid_events
        )
        values = asdict(before).items()
        self._before = {name: value for name, value in values if value is not None}

    def _recognise_reset(self, xids: XidWatch, values: Mapping[str, Any]) -> None:
        if self._failed_with in _RESET_CODES or was_reset(self._before, values):
            xids.mark_before_reset()
        # Only an earlier collector leaves a state, which is now decided.
        self._before.pop("state", None)

    def _fetch_xids(self, now: float) -> None:
        """Fetch the XIDs, from the second tick on: the first may be the only one."""
        if self._xids is None:
            from gpudash.collect.nvml.xids import XidWatch

            self._xids = XidWatch(self._library, self._wall_clock, self.xid_watches)
        self._xids.fetch(self.handle, now)


class Gpu:
    """One GPU as shown, even while it does not answer."""

    def __init__(
        self,
        library: Library,
        index: int,
        address: str | None,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
    ) -> None:
        self.address = address
        """Its address in the kernel, `0000:1a:00.0`; None if unknown."""
        self.identity = UNKNOWN
        """Its name and UUID, from itself or from the kernel."""
        self.reader = GpuReader(library, index, clock, wall_clock)
        self.device = Device(index=index)
        self.instances: tuple[Device, ...] = ()
        self.listing = NO_PROCESSES
        self.task: Task[GpuSample] | None = None
        self.is_known = False
        """Whether it was ever read in full."""
        self.last: LastSample | None = None
        """Its last answers, None if it has since been lost, asleep or without its driver."""
        self._clock = clock

    @property
    def is_pending(self) -> bool:
        """Whether one of its tasks has not returned."""
        return self.task is not None and self.task.is_pending

    @property
    def lacks_listing(self) -> bool:
        """Whether its processes are unknown because it did not answer, or was unreadable."""
        return self.listing is _UNANSWERED or self.listing is _UNREAD

    @property
    def is_readable(self) -> bool:
        """Whether it can be called now."""
        return not self.is_pending and self.reader.handle is not None

    @property
    def is_idle(self) -> bool:
        """Whether it sleeps, or has neither load nor processes."""
        return is_suspended_on_purpose(self.device) or (
            self.device.state == "ok"
            and self.device.gpu_utilization_percent == 0
            and not self.listing.code
            and not self.listing.entries
        )

    def start(self, now: float, *, list_processes: bool, brief: bool) -> Task[GpuSample]:
        """Return the task of this tick."""
        known = None if list_processes else self.listing
        self.task = Task(lambda: self.reader.read(now, known, brief=brief), retry_of=self.task)
        return self.task

    def show(self, sample: GpuSample) -> None:
        """Show what the task read."""
        self.device, self.instances, self.listing = sample.device, sample.instances, sample.listing
        self.is_known |= not sample.brief
        if not sample.brief:
            self.last = LastSample(sample, self._clock()) if sample.device.state == "ok" else None
        if self.device.uuid not in (None, self.identity.uuid):
            self.identity = Identity(self.device.name, self.device.uuid)
        self.address = kernel_address(self.device.pci_bus_id) or self.address

    def show_identity(self, identity: Identity) -> None:
        """Show its identity although it was never readable."""
        self.device = self._with_handed_over_xids(
            replace(
                self.device,
                pci_bus_id=self.device.pci_bus_id or nvml_address(self.address),
                name=self.device.name or identity.name,
                uuid=identity.uuid,
                fault=self.device.fault and replace(self.device.fault, uuid=identity.uuid),
            )
        )

    def show_asleep(self, identity: Identity, *, resting: bool = False) -> None:
        """Show it asleep, or falling asleep, without a call that would wake it."""
        self.task = self.last = None
        known = {**self._identity(identity), **self.reader.identity()}
        self.reader.forget_handle()
        fault = Fault(source="nvml", uuid=known["uuid"], message=_LEFT_ALONE) if resting else None
        self._show_unread(known, "resting" if resting else "asleep", fault)
        self.listing = NO_PROCESSES

    def show_unanswered(self, identity: Identity, fault: Fault) -> None:
        """Show no values, as the last ones are out of date, but its memory may still be held."""
        known = {**self._identity(identity), **self.reader.identity()}
        known["uuid"] = known["uuid"] or identity.uuid
        state = _state_by_fault(fault)
        if state == "not-answering" and self.last is not None:
            known["last_read"] = self.last.memory(self._clock())
        self._show_unread(known, state, replace(fault, uuid=known["uuid"]))
        self.listing = _UNANSWERED if state == "not-answering" else _UNREAD

    def _identity(self, identity: Identity) -> dict[str, Any]:
        known = {"name": identity.name, "uuid": identity.uuid}
        return {"pci_bus_id": nvml_address(self.address), **known}

    def _show_unread(self, known: dict[str, Any], state: DeviceState, fault: Fault | None) -> None:
        device = Device(index=self.reader.index, state=state, fault=fault, **known)
        self.device, self.instances = self._with_handed_over_xids(device), ()

    def _with_handed_over_xids(self, device: Device) -> Device:
        """Return it with the XIDs from an earlier collector, while it is unreadable."""
        before = self.reader.handed_over.get(device.uuid or "")
        if before is None or device.xid_events is not None:
            return device
        return replace(device, xid_events=before.xid_events)


def devices_on_bus(bus: Bus, addresses: Iterable[str], fault: Fault) -> tuple[Device, ...]:
    """Return the GPUs known to the kernel, all with the same fault."""
    return tuple(
        Device(
            index=index,
            pci_bus_id=nvml_address(address),
            state=_state_by_fault(fault),
            fault=fault,
            **asdict(bus.identity(address)),
        )
        for index, address in enumerate(addresses)
    )


def was_reset(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether the values of a new handle are of a GPU that was reset since `before`."""
    return (
        before.get("state") in _OUT
        or any(_fell(before.get(name), after.get(name)) for name in _RISING)
        or any(before.get(name) is True and after.get(name) is False for name in _MENDED)
        or (before.get("recovery_action") in _RESETS and after.get("recovery_action") == "none")
    )


def _fell(before: int | None, after: int | None) -> bool:
    return before is not None and after is not None and after < before


def _identity(values: dict[str, Any]) -> dict[str, Any]:
    return {field: values[field] for field in _IDENTITY & values.keys()}


def _of_now(unaccounted: int | None, used: int | None) -> int | None:
    """Return an amount from the last process listing, None if it cannot be true any more."""
    if unaccounted is None or used is None or unaccounted > used:
        return None
    return unaccounted


def _state_by_code(code: int) -> DeviceState:
    if code == codes.GPU_IS_LOST:
        return "lost"
    return "reset-required" if code == codes.RESET_REQUIRED else "failed"


def _state_by_fault(fault: Fault) -> DeviceState:
    """Return the state of a GPU without an answer: one that lacked a thread is not silent."""
    return "not-answering" if fault.code == codes.TIMEOUT else "failed"
