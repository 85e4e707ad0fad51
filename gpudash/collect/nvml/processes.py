"""The processes on a GPU: the memory that each holds, and its utilization."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.library import Library, ProcessSample, RunningProcess
from gpudash.model.device import Device
from gpudash.model.process import ProcessDevice

_KINDS = {"MPSCompute": "M", "Compute": "C", "Graphics": "G"}
_FIRST_SPAN_US = 1_000_000
"""How far back a first reading goes: enough for samples at 7 Hz, and still recent."""
_MAX_AHEAD_US = 1_000_000
"""How far a timestamp may be ahead of the clock; beyond that it is garbage."""

Utilization = tuple[int, int, int, int]
Key = tuple[int, int | None, int | None]


class GpuProcesses(Struct, frozen=True):
    """The processes of one GPU; `code` is NVML's return value if they could not be listed."""

    entries: tuple[tuple[int, ProcessDevice], ...]
    code: int
    unaccounted_bytes: int | None
    listed_at: float = 0.0
    """When it was listed, in seconds of the reader's clock."""


class GpuProcessReader:
    """The processes of one GPU, from listing to listing."""

    def __init__(
        self,
        library: Library,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
    ) -> None:
        self._library = library
        self._clock = clock
        self._wall_clock = wall_clock
        self._refused: set[str] = set()
        self._compute_pids: set[int] | None = None
        self._has_mps_clients = False
        self._newest_us = self._now_us() - _FIRST_SPAN_US

    def forget_refusals(self) -> None:
        """Retry what was refused: the handle is new."""
        self._refused.clear()

    def read(
        self, handle: Any, index: int, gpu: Mapping[str, Any], instances: tuple[Device, ...]
    ) -> GpuProcesses:
        """List the processes of a GPU and of its MIG instances; `gpu` has the GPU's fields."""
        # Before the calls: a process started since may have a PID that ended while they ran.
        listed_at = self._clock()
        rows, code = self._running(handle)
        if code:
            return GpuProcesses((), code, None)
        busy = self._utilization(handle, {pid for pid, _, _ in rows})
        uuids = {(i.gpu_instance_id, i.compute_instance_id): i.uuid for i in instances}
        entries = tuple(
            (key[0], _entry(index, gpu, position, key, row, uuids, busy.get(key[0])))
            for position, (key, row) in enumerate(rows.items())
        )
        return GpuProcesses(entries, codes.SUCCESS, _unaccounted(gpu, rows), listed_at)

    def _running(self, handle: Any) -> tuple[dict[Key, tuple[str, int | None]], int]:
        """Return ({(pid, GPU instance, compute instance): (types, bytes)}, 0 or a code)."""
        rows: dict[Key, tuple[str, int | None]] = {}
        failure = codes.NOT_SUPPORTED
        lists: dict[str, list[RunningProcess]] = {}
        for kind in ("Compute", "Graphics", "MPSCompute"):
            if kind in self._refused or (
                kind == "MPSCompute" and not self._may_have_clients(lists)
            ):
                continue
            entries, code = self._library.running_processes(handle, kind)
            if code in codes.PERMANENT:
                self._refused.add(kind)
            elif code:
                return {}, code
            else:
                failure = codes.SUCCESS
                lists[kind] = entries
        self._has_mps_clients = bool(lists.get("MPSCompute"))
        for kind, letter in _KINDS.items():
            _merge(rows, lists.get(kind, []), letter)
        return rows, failure

    def _may_have_clients(self, lists: Mapping[str, list[RunningProcess]]) -> bool:
        """Return whether to query clients of MPS: a new one first appears as a compute process."""
        before = self._compute_pids
        self._compute_pids = {each.pid for each in lists.get("Compute", ())}
        return self._has_mps_clients or before != self._compute_pids

    def _utilization(self, handle: Any, pids: set[int]) -> dict[int, Utilization]:
        """Return the known (SM, memory, encoder, decoder) percentages by PID.

        A PID without new samples was idle; one with only impossible samples is left out.
        """
        if not pids or "utilization" in self._refused:
            return {}
        now_us = self._now_us()
        if self._newest_us > now_us + _MAX_AHEAD_US:  # The clock was set back.
            self._newest_us = now_us - _FIRST_SPAN_US
        samples, code = self._library.process_samples(handle, self._newest_us)
        if code in codes.PERMANENT:
            self._refused.add("utilization")
        if code not in (codes.SUCCESS, codes.NOT_FOUND):
            return {}
        fresh = [s for s in samples if s.pid in pids and s.timestamp_us > self._newest_us]
        possible = [s for s in fresh if _is_possible(s, now_us)]
        unknown = {s.pid for s in fresh} - {s.pid for s in possible}
        busy: dict[int, Utilization] = dict.fromkeys(pids - unknown, (0, 0, 0, 0))
        for sample in possible:
            busy[sample.pid] = _highest(busy[sample.pid], sample)
        self._newest_us = max((self._newest_us, *(s.timestamp_us for s in possible)))
        return busy

    def _now_us(self) -> int:
        return int(self._wall_clock() * 1e6)


def _is_possible(sample: ProcessSample, now_us: int) -> bool:
    """Whether a sample can be true: the driver's ring buffer also contains garbage."""
    shares = (sample.sm, sample.memory, sample.encoder, sample.decoder)
    return sample.timestamp_us <= now_us + _MAX_AHEAD_US and max(shares) <= 100


def _merge(
    rows: dict[Key, tuple[str, int | None]], entries: list[RunningProcess], letter: str
) -> None:
    """Add one list: a PID in two of them is one process with the same memory in both."""
    for entry in entries:
        if entry.pid == 0:
            continue
        key = (entry.pid, entry.gpu_instance_id, entry.compute_instance_id)
        types, memory = rows.get(key, ("", None))
        shares = [m for m in (memory, entry.used_gpu_memory_bytes) if m is not None]
        if letter not in types:
            types = f"{types}+{letter}" if types else letter
        rows[key] = types, max(shares, default=None)


def _highest(before: Utilization, sample: ProcessSample) -> Utilization:
    return (
        max(before[0], sample.sm),
        max(before[1], sample.memory),
        max(before[2], sample.encoder),
        max(before[3], sample.decoder),
    )


def _entry(
    index: int,
    gpu: Mapping[str, Any],
    position: int,
    key: Key,
    row: tuple[str, int | None],
    uuids: Mapping[tuple[int | None, int | None], str | None],
    busy: Utilization | None,
) -> ProcessDevice:
    _, gpu_instance, compute_instance = key
    types, memory = row
    sm, bandwidth, encoder, decoder = busy or (None, None, None, None)
    # Some drivers number a whole GPU as instance 0 rather than as none.
    uuid = gpu.get("uuid")
    inside = (gpu.get("mig_mode") or uuids) and gpu_instance is not None
    return ProcessDevice(
        index=index,
        uuid=uuids.get((gpu_instance, compute_instance), uuid) if inside else uuid,
        type=types,
        list_position=position,
        used_gpu_memory_bytes=memory,
        sm_utilization_percent=sm,
        memory_utilization_percent=bandwidth,
        encoder_utilization_percent=encoder,
        decoder_utilization_percent=decoder,
        gpu_instance_id=gpu_instance if inside else None,
        compute_instance_id=compute_instance if inside else None,
    )


def _unaccounted(gpu: Mapping[str, Any], rows: dict[Key, tuple[str, int | None]]) -> int | None:
    """Return the used bytes owned by no listed process, None if a share is unknown.

    An old driver counts its own reservation as used, and does not report its size.
    """
    used: int | None = gpu.get("memory_used_bytes")
    shares = [memory for _, memory in rows.values()]
    if used is None or gpu.get("memory_reserved_bytes") is None or None in shares:
        return None
    return max(0, used - sum(share or 0 for share in shares))
