"""One GPU from tick to tick: what it answers, and what is kept of it when it is gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.calls import STATIC
from gpudash.collect.nvml.handle_facts import HandleFacts
from gpudash.collect.nvml.library import Library
from gpudash.collect.nvml.paces import RETRY_SECONDS
from gpudash.collect.nvml.poll import DeviceLost
from gpudash.model.device import Device, DeviceState
from gpudash.model.fault import Fault, XidEvent
from gpudash.model.text import clean

if TYPE_CHECKING:
    from gpudash.collect.nvml.xids import XidWatch

_IDENTITY = frozenset(field for reading in STATIC for field, _ in reading.fields)


class DeviceReader:
    """A GPU by its NVML index; keeps its identity when it stops answering."""

    def __init__(self, library: Library, index: int, wall_clock: Callable[[], float]) -> None:
        self.index = index
        self.handle: Any = None
        self.openings = 0
        """How often its handle was asked for: what an earlier one refused, a later one may not."""
        self.kept: dict[str, Device] = {}
        """What an earlier collector left of each GPU, by UUID."""
        self._library = library
        self._wall_clock = wall_clock
        self._asked: HandleFacts | None = None
        self._put_aside: list[HandleFacts] = []
        """What was asked of earlier handles, and holds what NVML lent until it may be asked."""
        self._known: dict[str, Any] = {}
        self._xids: XidWatch | None = None
        self._left: dict[str, Any] = {}
        """What earlier handles told last, once it may be worth a comparison."""
        self._out_by = codes.SUCCESS
        """By what the GPU was out of order when its handle was last asked for."""
        self._retry_at = 0.0
        self._state: DeviceState = "ok"
        self._fault: Fault | None = None

    def read(self, now: float) -> Device:
        """Read what is due at `now` (monotonic seconds); never raises."""
        is_outdated = self._asked is not None and self._asked.is_outdated
        if is_outdated or (self._asked is None and now >= self._retry_at):
            self._open(now)
        if self._asked is not None:
            self._read(self._asked, now)
        values = self._known if self._asked is None else self._asked.values
        return Device(
            index=self.index,
            state=self._state,
            fault=self._fault,
            **{**values, "xid_events": self._xid_events},
        )

    def identity(self) -> dict[str, Any]:
        """Return what is true of it whatever it does now, also while a call is under way."""
        asked = self._asked
        values = self._known if asked is None else asked.values
        return {**_identity(values), "xid_events": self._xid_events}

    def asleep(self, bus_id: str | None, name: str | None, uuid: str | None) -> Device:
        """Return the GPU as suspended, without any call: it would wake it, or hang."""
        identity: dict[str, Any] = {"pci_bus_id": bus_id, "name": name, "uuid": uuid}
        identity.update(self.identity())
        self._forget_handle()
        return Device(index=self.index, state="asleep", **identity)

    def reopen(self, index: int) -> None:
        """Ask for the handle again at the next read: the old one died with the driver."""
        self.index = index
        self._forget_handle()

    def close(self) -> None:
        """Give back what NVML lent, while it is still open."""
        for asked in (*self._put_aside, self._asked):
            if asked is not None:
                asked.close()
        self._put_aside.clear()
        if self._xids is not None:
            self._xids.close()

    def begin_anew(self) -> None:
        """Take note that the driver was loaded anew: what was reported before is over."""
        if self._xids is not None:
            self._xids.put_behind()

    def fail(self, code: int, now: float) -> None:
        """Mark the GPU as failed for `code`; it is asked again after a while."""
        self._forget_handle()
        self.close()
        self._retry_at = now + RETRY_SECONDS
        self._state = _state(code)
        self._fault = Fault(
            source="nvml",
            code=code,
            uuid=self._known.get("uuid"),
            message=clean(codes.device_message(self.index, code)),
        )

    @property
    def _xid_events(self) -> tuple[XidEvent, ...] | None:
        return None if self._xids is None else self._xids.events

    def _open(self, now: float) -> None:
        handle, code = self._library.ask("nvmlDeviceGetHandleByIndex", self.index)
        if code:
            self.fail(code, now)
            return
        self._forget_handle()
        self.close()
        self._out_by = (self._fault.code if self._fault else None) or codes.SUCCESS
        self.handle, self._state, self._fault = handle, "ok", None
        self.openings += 1
        self._asked = HandleFacts(self._library, handle)

    def _forget_handle(self) -> None:
        asked = self._asked
        if asked is not None:
            self._known = _identity(asked.values) or self._known
            self._put_aside.append(asked)
            if self._xids is not None:
                told = asked.values.items()
                self._left.update((name, value) for name, value in told if value is not None)
        self.handle, self._asked = None, None
        self._retry_at = 0.0

    def _read(self, asked: HandleFacts, now: float) -> None:
        is_new = not asked.reads
        if not is_new:
            self._watch_xids(asked, now)
        try:
            asked.read(now)
        except DeviceLost as lost:
            self.fail(lost.code, now)
            return
        kept = self.kept.pop(asked.values.get("uuid") or "", None) if is_new and self.kept else None
        if kept is not None:
            self._recall(kept)
        if is_new and self._xids is not None:
            self._settle_xids(self._xids, asked)
            self._watch_xids(asked, now)

    def _recall(self, kept: Device) -> None:
        """Go on from where an earlier collector ended."""
        from gpudash.collect.nvml.xids import XidWatch

        self._xids = self._xids or XidWatch(self._library, self._wall_clock, kept.xid_events)
        told = {name: getattr(kept, name) for name in kept.__struct_fields__}
        self._left = {name: value for name, value in told.items() if value is not None}

    def _settle_xids(self, xids: XidWatch, asked: HandleFacts) -> None:
        """Put behind what was reported before a reset, if there was one since the last handle."""
        from gpudash.collect.nvml.resets import CAME_BACK, was_reset

        if self._out_by in CAME_BACK or was_reset(self._left, asked.values):
            xids.put_behind()
        # Told by an earlier collector, and settled now; handles tell none.
        self._left.pop("state", None)

    def _watch_xids(self, asked: HandleFacts, now: float) -> None:
        """Fetch the XIDs from the second tick on: a first one may be the only one."""
        if self._xids is None and asked.reads:
            from gpudash.collect.nvml.xids import XidWatch

            self._xids = XidWatch(self._library, self._wall_clock)
        if self._xids is not None:
            self._xids.fetch(self.handle, now)


def _identity(values: dict[str, Any]) -> dict[str, Any]:
    return {field: values[field] for field in _IDENTITY & values.keys()}


def _state(code: int) -> DeviceState:
    if code == codes.GPU_IS_LOST:
        return "lost"
    return "reset-required" if code == codes.RESET_REQUIRED else "failed"
