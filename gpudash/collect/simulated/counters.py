"""What NVML answers by structures that the caller brings: field values, events, fabric and GPM."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from gpudash.collect.simulated.constants import CONSTANTS, FIELD, NVMLError, Record
from gpudash.collect.simulated.gpu import THERMAL, Gpu
from gpudash.collect.simulated.signals import key, mix

_MEMBERS = {1: "uiVal", 3: "ullVal", 5: "siVal"}
_UINT, _ULONGLONG, _INT = 1, 3, 5
_ALL_LINKS = 0xFFFFFFFF
_NOT_SUPPORTED = CONSTANTS["NVML_ERROR_NOT_SUPPORTED"]
_KIB = 1024
_SENT_SHARE = 0.94

Field = tuple[int, Callable[[Gpu, float, int], int | None]]


def field_values(gpu: Gpu, now: float, ids: Iterable[int | tuple[int, int]]) -> list[Record]:
    """Return one value per id or (id, scope); `nvmlReturn` is the status of each."""
    return [_read(gpu, now, *((one, 0) if isinstance(one, int) else one)) for one in ids]


def _read(gpu: Gpu, now: float, field: int, scope: int) -> Record:
    kind, read = _TABLE.get(field, (_UINT, _nothing))
    value = read(gpu, now, scope)
    return Record(
        fieldId=field,
        scopeId=scope,
        timestamp=int(now * 1e6),
        latencyUsec=2,
        valueType=kind,
        nvmlReturn=_NOT_SUPPORTED if value is None else 0,
        value=Record(**{_MEMBERS[kind]: value or 0}),
    )


def _nothing(gpu: Gpu, now: float, scope: int) -> None:
    """Answer a field that no board here has."""


def _offset(name: str) -> Field:
    """Return a threshold as its distance below the one where the hardware slows down."""

    def read(gpu: Gpu, now: float, scope: int) -> int | None:
        limits = gpu.board.thresholds
        limit: int | None = getattr(limits, name)
        return None if limit is None or not gpu.board.margin else limits.slowdown - limit

    return _INT, read


def _pcie(factor: float) -> Field:
    """Return bytes moved since boot, times a factor."""

    def read(gpu: Gpu, now: float, scope: int) -> int | None:
        return int(gpu.traffic(now, "pcie") * factor)

    return _ULONGLONG, read


def _links(factor: float) -> Field:
    """Return the KiB of one NVLink since boot, or of all for the scope of all links."""

    def read(gpu: Gpu, now: float, scope: int) -> int | None:
        link = gpu.board.nvlink
        if link is None or not (scope < link.count or scope == _ALL_LINKS):
            return None
        each = int(gpu.traffic(now, "nvlink") * factor / link.count / _KIB)
        return each * link.count if scope == _ALL_LINKS else each

    return _ULONGLONG, read


def _link_fact(read: Callable[[Any], int]) -> Field:
    """Return a fact about NVLink that is the same for all links of a board."""
    return _UINT, lambda g, now, scope: read(g.board.nvlink) if g.board.nvlink else None


def _if(ability: str, value: Callable[[Gpu, float], int], kind: int = _UINT) -> Field:
    """Return a value of boards that have an ability."""
    return kind, lambda g, now, scope: value(g, now) if getattr(g.board, ability) else None


def _memory_temperature(gpu: Gpu, now: float) -> int:
    moment = gpu.at(now)
    return moment.temperature + 3 + moment.memory_utilization // 16


def _thermal_nanoseconds(gpu: Gpu, now: float) -> int:
    """A capped card draws steadily, so what holds now has held since boot."""
    return gpu.capped_nanoseconds(now) if gpu.at(now).reasons & THERMAL else 0


_TABLE: dict[int, Field] = {
    FIELD["PERF_POLICY_POWER"]: (_ULONGLONG, lambda g, now, _: g.capped_nanoseconds(now)),
    FIELD["PERF_POLICY_THERMAL"]: (_ULONGLONG, lambda g, now, _: _thermal_nanoseconds(g, now)),
    FIELD["PERF_POLICY_SYNC_BOOST"]: (_ULONGLONG, lambda g, now, _: 0),
    FIELD["PERF_POLICY_BOARD_LIMIT"]: (_ULONGLONG, lambda g, now, _: 0),
    FIELD["CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN"]: (
        _ULONGLONG,
        lambda g, now, _: _thermal_nanoseconds(g, now),
    ),
    FIELD["CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN"]: (_ULONGLONG, lambda g, now, _: 0),
    FIELD["CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN"]: (_ULONGLONG, lambda g, now, _: 0),
    FIELD["MEMORY_TEMP"]: _if("memory_sensor", _memory_temperature),
    FIELD["TOTAL_ENERGY_CONSUMPTION"]: _if(
        "energy_counter", lambda g, now: g.energy(now), _ULONGLONG
    ),
    FIELD["NVLINK_LINK_COUNT"]: _link_fact(lambda link: link.count),
    FIELD["NVSWITCH_CONNECTED_LINK_COUNT"]: _link_fact(lambda link: link.count),
    FIELD["NVLINK_THROUGHPUT_DATA_TX"]: _links(_SENT_SHARE),
    FIELD["NVLINK_THROUGHPUT_DATA_RX"]: _links(1.0),
    FIELD["NVLINK_ERROR_DL_REPLAY"]: _link_fact(lambda link: 0),
    FIELD["NVLINK_ERROR_DL_RECOVERY"]: _link_fact(lambda link: 0),
    FIELD["NVLINK_ERROR_DL_CRC"]: _link_fact(lambda link: 0),
    FIELD["POWER_AVERAGE"]: _if("average_power", lambda g, now: g.at(now).average_power),
    FIELD["POWER_INSTANT"]: (_UINT, lambda g, now, _: g.at(now).instant_power),
    FIELD["TEMPERATURE_SHUTDOWN_TLIMIT"]: _offset("shutdown"),
    FIELD["TEMPERATURE_SLOWDOWN_TLIMIT"]: _offset("slowdown"),
    FIELD["TEMPERATURE_MEM_MAX_TLIMIT"]: _offset("memory"),
    FIELD["TEMPERATURE_GPU_MAX_TLIMIT"]: _offset("operating"),
    FIELD["PCIE_COUNT_TX_BYTES"]: _pcie(0.8),
    FIELD["PCIE_COUNT_RX_BYTES"]: _pcie(1.0),
    FIELD["GET_GPU_RECOVERY_ACTION"]: (_UINT, lambda g, now, _: 0),
}

_FIELD_CALLS = {"nvmlDeviceGetFieldValues": field_values}
"""The call for a batch of fields, on the handle of a whole GPU."""


_XID = CONSTANTS["nvmlEventTypeXidCriticalError"]
_NO_INSTANCE = 0xFFFFFFFF


class EventSet:
    """The cards whose XIDs arrive here, and until when they were fetched."""

    def __init__(self) -> None:
        self._fetched_until: dict[Gpu, float] = {}

    def register(self, gpu: Gpu, now: float) -> int:
        """Let the XIDs of a card arrive from now on."""
        self._fetched_until[gpu] = now
        return 0

    def wait(self, now: float, handle: Callable[[Gpu], Any]) -> Record:
        """Return the next XID that has arrived.

        Raises NVMLError TIMEOUT where there is none: simulated time does not pass while one waits.
        """
        for gpu, since in self._fetched_until.items():
            for xid in gpu.card.xids:
                at = (since // xid.every + 1) * xid.every
                if at <= now:
                    self._fetched_until[gpu] = at
                    return Record(
                        device=handle(gpu),
                        eventType=_XID,
                        eventData=xid.code,
                        gpuInstanceId=_NO_INSTANCE,
                        computeInstanceId=_NO_INSTANCE,
                    )
        raise NVMLError(CONSTANTS["NVML_ERROR_TIMEOUT"])


_EVENT_CALLS: dict[str, Callable[..., Any]] = {
    "nvmlDeviceGetSupportedEventTypes": lambda gpu, now: _XID,
    "nvmlDeviceRegisterEvents": lambda gpu, now, types, into: into.register(gpu, now),
}
"""Calls about events, on the handle of a whole GPU."""


_NOT_DEGRADED = 2
_HEALTHY = 1


def _fill(gpu: Gpu, now: float, info: Any) -> int | None:
    if gpu.board.nvlink is None:
        return None
    words = (mix(key(gpu.scene.name), number) for number in range(2))
    uuid = b"".join((word % 2**64).to_bytes(8, "big") for word in words)
    info.clusterUuid = type(info.clusterUuid)(*uuid)
    info.state = CONSTANTS["NVML_GPU_FABRIC_STATE_COMPLETED"]
    info.healthMask = _NOT_DEGRADED
    info.healthSummary = _HEALTHY
    return 0


_FABRIC_CALLS: dict[str, Callable[..., Any]] = {"nvmlDeviceGetGpuFabricInfoV": _fill}
"""Calls about the fabric, on the handle of a whole GPU; the structure is filled in place."""


_METRICS = 333
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


_GPM_CALLS: dict[str, Callable[..., Any]] = {
    "nvmlGpmQueryDeviceSupport": lambda g, now: Record(isSupportedDevice=int(g.board.gpm)),
    "nvmlGpmQueryIfStreamingEnabled": lambda g, now: 1 if g.board.gpm else None,
    "nvmlGpmSampleGet": fill,
}
"""Performance-monitoring calls on the handle of a whole GPU."""

COUNTER_CALLS: dict[str, Callable[..., Any]] = {
    **_FIELD_CALLS,
    **_EVENT_CALLS,
    **_FABRIC_CALLS,
    **_GPM_CALLS,
}
"""Calls on the handle of a whole GPU: (gpu, now, *arguments) -> answer."""
