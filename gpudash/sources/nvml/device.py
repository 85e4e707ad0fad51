"""One GPU read call by call: what it answers, what it never answers, and when it is gone."""

from __future__ import annotations

from typing import Any

from gpudash.snapshot import Device, DeviceState, Fault
from gpudash.sources.nvml import codes
from gpudash.sources.nvml.counters import COUNTERS, Counters
from gpudash.sources.nvml.gpm import Gpm
from gpudash.sources.nvml.library import Library
from gpudash.sources.nvml.links import active_links
from gpudash.sources.nvml.readings import (
    FAST_SECONDS,
    FIELD_VALUES,
    LANES,
    SLOW_SECONDS,
    STATIC,
    STEADY_SECONDS,
    FieldValue,
    Reading,
)
from gpudash.sources.nvml.values import fan_percent

RETRY_SECONDS = 10.0
"""How long a GPU that failed is left alone before its handle is asked for again."""

_COUNTED = frozenset(counter.field for counter in COUNTERS)
_IDENTITY = frozenset(field for reading in STATIC for field, _ in reading.fields)


class DeviceLost(Exception):  # noqa: N818
    """The GPU answered that it is gone; `code` says how."""

    def __init__(self, code: int) -> None:
        super().__init__(codes.text(code))
        self.code = code


class _Lane:
    """Readings of one pace; one that the device does not have drops out of it for good."""

    def __init__(self, readings: tuple[Reading, ...], seconds: float) -> None:
        self.readings = list(readings)
        self.fields = [field for field in FIELD_VALUES if field.seconds == seconds]
        self.seconds = seconds
        self.due = 0.0

    def refuse(self, reading: Reading) -> Reading | None:
        """Take a reading out, put its fallback in its place and return that."""
        place = self.readings.index(reading)
        self.readings[place : place + 1] = [reading.fallback] if reading.fallback else []
        return reading.fallback


class DeviceReader:
    """A GPU by its NVML index, read on lanes; keeps its facts when it stops answering."""

    def __init__(self, library: Library, index: int) -> None:
        self.index = index
        self.handle: Any = None
        self._library = library
        self._facts: dict[str, Any] = {}
        self._lanes = [_Lane(readings, seconds) for readings, seconds in LANES]
        self._fan_count: int | None = None
        self._counters = Counters()
        self._gpm = Gpm(library)
        self._has_fields = self._has_links = True
        self._retry_at = 0.0
        self._state: DeviceState = "ok"
        self._fault: Fault | None = None

    def read(self, now: float) -> Device:
        """Read what is due at `now` (monotonic seconds); never raises."""
        if self.handle is None and now >= self._retry_at:
            self._open(now)
        if self.handle is not None:
            try:
                self._read_lanes(now)
            except DeviceLost as lost:
                self.fail(lost.code, now)
        return Device(index=self.index, state=self._state, fault=self._fault, **self._facts)

    def asleep(self, bus_id: str | None, name: str | None, uuid: str | None) -> Device:
        """Return the GPU as suspended, without a call that would wake it."""
        identity: dict[str, Any] = {"pci_bus_id": bus_id, "name": name, "uuid": uuid}
        identity.update((f, self._facts[f]) for f in _IDENTITY & self._facts.keys())
        self._forget_handle()
        return Device(index=self.index, state="asleep", **identity)

    def reopen(self) -> None:
        """Ask for the handle again at the next read: the old one died with the driver."""
        self._forget_handle()

    def close(self) -> None:
        """Give back what NVML lent, while it is still open."""
        self._gpm.close()

    def fail(self, code: int, now: float) -> None:
        """Mark the GPU as failed for `code`; it is asked again after a while."""
        self._forget_handle()
        self._retry_at = now + RETRY_SECONDS
        self._facts = {f: value for f, value in self._facts.items() if f in _IDENTITY}
        self._state = _state(code)
        self._fault = self._fault_of(code)

    def _open(self, now: float) -> None:
        handle, code = self._library.ask("nvmlDeviceGetHandleByIndex", self.index)
        if code:
            self.fail(code, now)
            return
        self.handle, self._state, self._fault = handle, "ok", None

    def _forget_handle(self) -> None:
        self.handle = None
        self._retry_at = 0.0
        self._counters.forget()
        self._gpm.close()
        for lane in self._lanes:
            lane.due = 0.0

    def _read_lanes(self, now: float) -> None:
        due = [lane for lane in self._lanes if now >= lane.due]
        for lane in due:
            codes_seen = [self._take(reading, lane) for reading in tuple(lane.readings)]
            if lane.seconds == FAST_SECONDS and (code := _common_failure(codes_seen)):
                raise DeviceLost(code)
            if lane.seconds == STEADY_SECONDS:
                self._take_fans()
            if lane.seconds == SLOW_SECONDS:
                self._take_links()
            lane.due = now + lane.seconds
        self._take_field_values(due)
        for field, value in self._gpm.read(self.handle, now).items():
            if field not in _COUNTED or self._facts.get(field) is None:
                self._facts[field] = value

    def _take(self, reading: Reading | None, lane: _Lane) -> int | None:
        """Ask one reading and keep its fields; return its code, None if the device lacks it."""
        if reading is None:
            return None
        value, code = self._library.ask(reading.call, self.handle, *reading.arguments)
        if code in codes.DEAD:
            raise DeviceLost(code)
        if code in codes.PERMANENT:
            return self._take(lane.refuse(reading), lane)
        for field, convert in reading.fields:
            self._facts[field] = None if code else convert(value)
        return code

    def _take_field_values(self, due: list[_Lane]) -> None:
        if not self._has_fields:
            self._facts.update(dict.fromkeys(_COUNTED))
            return
        wanted: list[FieldValue] = [field for lane in due for field in lane.fields]
        batch = [(field.id, 0) for field in wanted] + self._counters.wanted()
        answers, code = self._library.fields(self.handle, batch)
        if code in codes.DEAD:
            raise DeviceLost(code)
        for field in wanted:
            answer = answers.get((field.id, 0))
            self._facts[field.field] = None if answer is None else field.convert(answer.value)
        self._facts.update(self._counters.rates(answers))
        self._has_fields = code not in codes.PERMANENT

    def _take_links(self) -> None:
        if not self._has_links:
            return
        links, code = active_links(self._library, self.handle)
        if code in codes.DEAD:
            raise DeviceLost(code)
        self._has_links = code not in codes.PERMANENT
        self._counters.links = links or ()
        self._facts["nvlink_count"] = None if links is None else len(links)

    def _take_fans(self) -> None:
        if self._facts.get("fan_speed_percent") is None:
            return
        if self._fan_count is None:
            self._fan_count = self._library.ask("nvmlDeviceGetNumFans", self.handle)[0] or 0
        speeds = [
            fan_percent(self._library.ask("nvmlDeviceGetFanSpeed_v2", self.handle, fan)[0])
            for fan in range(self._fan_count)
        ]
        self._facts["fan_speeds_percent"] = tuple(s for s in speeds if s is not None) or None

    def _fault_of(self, code: int) -> Fault:
        uuid = self._facts.get("uuid")
        message = codes.device_message(self.index, code)
        return Fault(source="nvml", code=code, uuid=uuid, message=message)


def _common_failure(seen: list[int | None]) -> int:
    """Return the code with which every reading that the device has failed, 0 if any answered."""
    asked = [code for code in seen if code is not None]
    return asked[0] if asked and all(asked) else 0


def _state(code: int) -> DeviceState:
    if code == codes.GPU_IS_LOST:
        return "lost"
    return "reset-required" if code == codes.RESET_REQUIRED else "failed"
