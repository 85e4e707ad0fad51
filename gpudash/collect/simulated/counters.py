"""What NVML answers by structures that the caller brings: events, fabric and GPM."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace as Record
from typing import Any, Literal

from gpudash.collect.nvml import codes
from gpudash.collect.simulated.calls import NO_INSTANCE, NVMLError
from gpudash.collect.simulated.gpu import SimulatedGpu
from gpudash.collect.simulated.signals import digits, key

_XID = 0x8
_XID_SECONDS = 900.0


def _register(gpu: SimulatedGpu, types: int, events: Any) -> int:
    """Let the XIDs of a card arrive from now on."""
    events.gpu, events.fetched_until = gpu, gpu.now
    return 0


def wait(events: Any, milliseconds: int) -> Record:
    """Return the next XID that has arrived.

    Raises NVMLError TIMEOUT where there is none: simulated time does not pass while one waits.
    """
    at = (events.fetched_until // _XID_SECONDS + 1) * _XID_SECONDS
    xid = events.gpu.card.xid
    if xid is None or at > events.gpu.now:
        raise NVMLError(codes.TIMEOUT)
    events.fetched_until = at
    return Record(device=events.gpu, eventType=_XID, eventData=xid, gpuInstanceId=NO_INSTANCE)


def _fill_fabric(gpu: SimulatedGpu, info: Any) -> int | None:
    if not gpu.board.nvlinks:
        return None
    info.clusterUuid = type(info.clusterUuid)(*bytes.fromhex(digits(32, key(gpu.scene.name))))
    # Completed, whose bandwidth is not degraded, and healthy.
    info.state, info.healthMask, info.healthSummary = 3, 2, 1
    return 0


_METRICS = 333
_MIB = 1 << 20
_SHARES_OF_LOAD = {1: 1.0, 2: 0.86, 3: 0.41, 5: 0.52, 7: 0.5, 10: 0.6, 12: 0.12}
_RATES: dict[int, tuple[Literal["pcie", "nvlink"], float]] = {
    20: ("pcie", 0.8),
    21: ("pcie", 1.0),
    60: ("nvlink", 1.0),
    61: ("nvlink", 0.94),
}


def metrics_request() -> Record:
    """Return what pynvml calls `c_nvmlGpmMetricsGet_t`: metrics to name, and their answers."""
    return Record(metrics=[Record() for _ in range(_METRICS)])


def _sample(gpu: SimulatedGpu, sample: Record) -> Record | None:
    """Note when a sample was taken, or return None without performance monitoring."""
    if not gpu.board.has_gpm:
        return None
    sample.gpu, sample.taken_at = gpu, gpu.now
    return sample


def compute(request: Any) -> Any:
    """Answer every metric of a request in place.

    Raises NVMLError INVALID_ARGUMENT when its samples do not span any time.
    """
    gpu, start, end = request.sample1.gpu, request.sample1.taken_at, request.sample2.taken_at
    if end <= start:
        raise NVMLError(codes.INVALID_ARGUMENT)
    for metric in request.metrics[: request.numMetrics]:
        value = _average(gpu, start, end, metric.metricId)
        metric.nvmlReturn = codes.NOT_SUPPORTED if value is None else codes.SUCCESS
        metric.value = value or 0.0
    return request


def _average(gpu: SimulatedGpu, start: float, end: float, metric: int) -> float | None:
    if metric in _RATES:
        rate, factor = _RATES[metric]
        return gpu.traffic(rate, start, end) * factor / (end - start) / _MIB
    share = _SHARES_OF_LOAD.get(metric)
    return None if share is None else share * gpu.load(start, end)


COUNTER_CALLS: dict[str, Callable[..., Any]] = {
    "nvmlDeviceGetSupportedEventTypes": lambda gpu: _XID,
    "nvmlDeviceRegisterEvents": _register,
    "nvmlDeviceGetGpuFabricInfoV": _fill_fabric,
    "nvmlGpmQueryDeviceSupport": lambda g: Record(isSupportedDevice=int(g.board.has_gpm)),
    "nvmlGpmQueryIfStreamingEnabled": lambda g: 1 if g.board.has_gpm else None,
    "nvmlGpmSampleGet": _sample,
}
"""Calls on the handle of a whole GPU: (gpu, *arguments) -> answer."""
