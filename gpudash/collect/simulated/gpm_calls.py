"""NVML's GPU performance monitoring: averages between two samples that the caller keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from gpudash.collect.simulated.constants import CONSTANTS
from gpudash.collect.simulated.errors import NVMLError
from gpudash.collect.simulated.gpu import Gpu
from gpudash.collect.simulated.results import Record

_METRICS = 333
_NOT_SUPPORTED = CONSTANTS["NVML_ERROR_NOT_SUPPORTED"]
_INVALID = CONSTANTS["NVML_ERROR_INVALID_ARGUMENT"]
_MIB = 1 << 20

_SHARES_OF_LOAD = {1: 1.0, 2: 0.86, 3: 0.41, 5: 0.52, 7: 0.5, 10: 0.6, 12: 0.12}
_RATES: dict[int, tuple[Literal["pcie", "nvlink"], float]] = {
    20: ("pcie", 0.8),
    21: ("pcie", 1.0),
    60: ("nvlink", 1.0),
    61: ("nvlink", 0.94),
}


class Sample:
    """A reading of a GPU's counters, empty until one was taken."""

    __slots__ = ("gpu", "taken_at")

    def __init__(self) -> None:
        self.gpu: Gpu | None = None
        self.taken_at = 0.0


class MetricsGet:
    """What pynvml calls `c_nvmlGpmMetricsGet_t`: the metrics asked for and their answers."""

    def __init__(self) -> None:
        self.version = 0
        self.numMetrics = 0
        self.sample1: Sample | None = None
        self.sample2: Sample | None = None
        self.metrics = [Record(metricId=0, nvmlReturn=0, value=0.0) for _ in range(_METRICS)]


def fill(gpu: Gpu, now: float, sample: Sample) -> Sample | None:
    """Take a sample, or return None where the board has no performance monitoring."""
    if not gpu.board.gpm:
        return None
    sample.gpu, sample.taken_at = gpu, now
    return sample


def compute(request: MetricsGet) -> MetricsGet:
    """Answer every metric of a request in place.

    Raises NVMLError INVALID_ARGUMENT when its samples do not span any time on one GPU.
    """
    first, second = request.sample1, request.sample2
    if first is None or second is None or first.gpu is None or first.gpu is not second.gpu:
        raise NVMLError(_INVALID)
    if second.taken_at <= first.taken_at:
        raise NVMLError(_INVALID)
    for metric in request.metrics[: request.numMetrics]:
        value = _average(first.gpu, first.taken_at, second.taken_at, metric.metricId)
        metric.nvmlReturn = _NOT_SUPPORTED if value is None else 0
        metric.value = value or 0.0
    return request


def _average(gpu: Gpu, start: float, end: float, metric: int) -> float | None:
    span = end - start
    if metric in _RATES:
        rate, factor = _RATES[metric]
        return (gpu.traffic(end, rate) - gpu.traffic(start, rate)) * factor / span / _MIB
    if metric not in _SHARES_OF_LOAD:
        return None
    load = sum(o.signal.integral(start, end) for o in gpu.occupants) / span
    return min(100.0, load * _SHARES_OF_LOAD[metric])


GPM_CALLS: dict[str, Callable[..., Any]] = {
    "nvmlGpmQueryDeviceSupport": lambda g, now: Record(isSupportedDevice=int(g.board.gpm)),
    "nvmlGpmQueryIfStreamingEnabled": lambda g, now: 1 if g.board.gpm else None,
    "nvmlGpmSampleGet": fill,
}
"""Performance-monitoring calls on the handle of a whole GPU."""
