"""The load of the SMs, from NVML's GPU performance monitoring (Hopper and newer).

Each value is the average between two samples: the previous tick's is kept, so that nothing waits.
It needs no rights outside MIG and disturbs no profiler.
"""

from __future__ import annotations

from typing import Any

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.library import Library
from gpudash.collect.nvml.polling import Timer
from gpudash.model.device import GPM_PERCENTS, GPM_RATES

_ALL = {**GPM_PERCENTS, **GPM_RATES}

_REFRESH_SECONDS = 0.1
"""The driver renews its counters no faster; closer samples may be the same one."""

Values = dict[str, float | None]
_NONE: Values = dict.fromkeys(_ALL.values())
_MIB = 1 << 20
_MAX_MIB = 1e8


class Gpm:
    """Performance monitoring of one GPU, or of one MIG instance of it, from tick to tick."""

    def __init__(self, library: Library, gpu_instance_id: int | None = None) -> None:
        self._library = library
        self._instance = gpu_instance_id
        self._supported: bool | None = None
        self._counts = False
        """Whether 0 means none: the counters run, although some drivers say that they are off."""
        self._before: Any = None
        self._spare: Any = None
        self._timer = Timer(_REFRESH_SECONDS)
        self._values = _NONE

    def read(self, handle: Any, now: float) -> Values:
        """Return the averages since the last read, None each in the first or if not supported.

        `handle` is the whole GPU's, also for a MIG instance.
        """
        if self._supported is None:
            self._supported = self._is_supported(handle)
        if self._supported and self._timer.is_due(now):
            self._values = self._take(handle)
        return self._values

    def close(self) -> None:
        """Free the samples: the handle that they were taken with is gone."""
        for sample in (self._before, self._spare):
            if sample is not None:
                self._library.call("nvmlGpmSampleFree", sample)
        self._before = self._spare = self._supported = None
        self._values = _NONE

    def _is_supported(self, handle: Any) -> bool | None:
        """Whether the device supports it, None if the driver fails to say so this time."""
        if self._library.single_sample:
            return False
        support, code = self._library.call("nvmlGpmQueryDeviceSupport", handle)
        if code:
            return False if code in codes.PERMANENT else None
        if not support.isSupportedDevice:
            return False
        streaming, code = self._library.call("nvmlGpmQueryIfStreamingEnabled", handle)
        # Drivers without this call always stream.
        if code and code not in codes.PERMANENT:
            return None
        self._counts = bool(code or streaming)
        return True

    def _take(self, handle: Any) -> Values:
        sample = self._spare
        if sample is None:
            sample, _ = self._library.call("nvmlGpmSampleAlloc")
        if self._instance is None:
            _, code = self._library.call("nvmlGpmSampleGet", handle, sample)
        else:
            _, code = self._library.call("nvmlGpmMigSampleGet", handle, self._instance, sample)
        if code:
            self._spare = sample
            return _NONE
        before, self._before, self._spare = self._before, sample, self._before
        return _NONE if before is None else self._averages(before, sample)

    def _averages(self, before: Any, after: Any) -> Values:
        module = self._library.module
        request = module.c_nvmlGpmMetricsGet_t()
        request.version = module.NVML_GPM_METRICS_GET_VERSION
        request.sample1, request.sample2 = before, after
        request.numMetrics = len(_ALL)
        for index, number in enumerate(_ALL):
            request.metrics[index].metricId = number
        answer, code = self._library.call("nvmlGpmMetricsGet", request)
        if code:
            return _NONE
        values = {
            field: (_rate if number in GPM_RATES else _percent)(answer.metrics[index])
            for index, (number, field) in enumerate(_ALL.items())
        }
        self._counts = self._counts or any(values.values())
        return values if self._counts else _NONE


def _percent(metric: Any) -> float | None:
    """Return a share to a tenth of a percent, None if it is not a number or above 100."""
    value: float = metric.value
    valid = metric.nvmlReturn == codes.SUCCESS and 0.0 <= value < 100.5
    return min(100.0, round(value, 1)) if valid else None


def _rate(metric: Any) -> int | None:
    """Return bytes per second."""
    value: float = metric.value
    valid = metric.nvmlReturn == codes.SUCCESS and 0.0 <= value < _MAX_MIB
    return round(value * _MIB) if valid else None
