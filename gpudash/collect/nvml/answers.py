"""What NVML's lists and batches answer, in Python's own types."""

from __future__ import annotations

from msgspec import Struct

Scoped = tuple[int, int]
"""A field's id and its scope: a link's number for fields of NVLinks, 0 for those of the GPU."""


class RunningProcess(Struct, frozen=True):
    """One entry of a process list; memory in bytes, None where the driver does not say."""

    pid: int
    used_gpu_memory_bytes: int | None
    gpu_instance_id: int | None
    compute_instance_id: int | None


class FieldAnswer(Struct, frozen=True):
    """The value of one field, and when the driver read it in microseconds of Unix time."""

    value: int | float
    timestamp_us: int


class FieldAnswers(Struct, frozen=True):
    """One batch of field values; what is neither in `values` nor refused failed this time."""

    values: dict[Scoped, FieldAnswer]
    refused: frozenset[Scoped]
    """What the device, or this driver, does not have."""
    code: int
    """NVML's value of the whole call."""


class ProcessSample(Struct, frozen=True):
    """One utilization sample of one process, in percent; the time in microseconds of Unix time."""

    pid: int
    timestamp_us: int
    sm: int
    memory: int
    encoder: int
    decoder: int
