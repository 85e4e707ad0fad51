"""NVML's field values: one table from field id to value, for a batch of fields per call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from gpudash.collect.simulated.constants import CONSTANTS, FIELD
from gpudash.collect.simulated.gpu import Gpu
from gpudash.collect.simulated.moment import THERMAL
from gpudash.collect.simulated.results import Record

_MEMBERS = {1: "uiVal", 3: "ullVal", 5: "siVal"}
_UINT, _ULONGLONG, _INT = 1, 3, 5
_ALL_LINKS = 0xFFFFFFFF
_NOT_SUPPORTED = CONSTANTS["NVML_ERROR_NOT_SUPPORTED"]
_KIB = 1024
_PROTOCOL = 1.08
_SENT_SHARE = 0.94

Field = tuple[int, Callable[[Gpu, float, int], int | None]]


def field_values(gpu: Gpu, now: float, ids: Iterable[int | tuple[int, int]]) -> list[Record]:
    """Return one value per id or (id, scope); an entry that fails says so in `nvmlReturn`."""
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
    """Return the KiB of one NVLink since boot, or of all when the scope says so."""

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


def _milliwatts(watts: Callable[[Gpu], float]) -> Field:
    """Return a power limit in mW."""
    return _if("power_limits", lambda g, now: round(watts(g) * 1000))


_TABLE: dict[int, Field] = {
    FIELD["ECC_CURRENT"]: _if("ecc", lambda g, now: 1),
    FIELD["ECC_PENDING"]: _if("ecc", lambda g, now: 1),
    FIELD["ECC_SBE_VOL_TOTAL"]: _if("ecc", lambda g, now: g.card.corrected_errors, _ULONGLONG),
    FIELD["ECC_DBE_VOL_TOTAL"]: _if("ecc", lambda g, now: 0, _ULONGLONG),
    FIELD["ECC_SBE_AGG_TOTAL"]: _if("ecc", lambda g, now: g.card.corrected_errors, _ULONGLONG),
    FIELD["ECC_DBE_AGG_TOTAL"]: _if("ecc", lambda g, now: 0, _ULONGLONG),
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
    FIELD["NVLINK_SPEED_MBPS_COMMON"]: _link_fact(lambda link: link.speed_mbps),
    FIELD["NVLINK_LINK_COUNT"]: _link_fact(lambda link: link.count),
    FIELD["NVSWITCH_CONNECTED_LINK_COUNT"]: _link_fact(lambda link: link.count),
    FIELD["NVLINK_THROUGHPUT_DATA_TX"]: _links(_SENT_SHARE),
    FIELD["NVLINK_THROUGHPUT_DATA_RX"]: _links(1.0),
    FIELD["NVLINK_THROUGHPUT_RAW_TX"]: _links(_SENT_SHARE * _PROTOCOL),
    FIELD["NVLINK_THROUGHPUT_RAW_RX"]: _links(_PROTOCOL),
    FIELD["NVLINK_ERROR_DL_REPLAY"]: _link_fact(lambda link: 0),
    FIELD["NVLINK_ERROR_DL_RECOVERY"]: _link_fact(lambda link: 0),
    FIELD["NVLINK_ERROR_DL_CRC"]: _link_fact(lambda link: 0),
    FIELD["NVLINK_GET_SPEED"]: _link_fact(lambda link: link.speed_mbps),
    FIELD["NVLINK_GET_STATE"]: _link_fact(lambda link: 1),
    FIELD["NVLINK_GET_VERSION"]: _link_fact(lambda link: link.version),
    FIELD["PCIE_REPLAY_COUNTER"]: (_ULONGLONG, lambda g, now, _: g.card.pcie_replays),
    FIELD["REMAPPED_COR"]: _if("ecc", lambda g, now: g.card.remapped_rows),
    FIELD["REMAPPED_UNC"]: _if("ecc", lambda g, now: 0),
    FIELD["REMAPPED_PENDING"]: _if("ecc", lambda g, now: 0),
    FIELD["REMAPPED_FAILURE"]: _if("ecc", lambda g, now: 0),
    FIELD["POWER_AVERAGE"]: _if("average_power", lambda g, now: g.at(now).average_power),
    FIELD["POWER_INSTANT"]: (_UINT, lambda g, now, _: g.at(now).instant_power),
    FIELD["POWER_MIN_LIMIT"]: _milliwatts(lambda g: (g.board.power_limits or (0, 0))[0]),
    FIELD["POWER_MAX_LIMIT"]: _milliwatts(lambda g: (g.board.power_limits or (0, 0))[1]),
    FIELD["POWER_DEFAULT_LIMIT"]: _milliwatts(lambda g: g.board.power_limit),
    FIELD["POWER_CURRENT_LIMIT"]: _milliwatts(lambda g: g.power_limit),
    FIELD["POWER_REQUESTED_LIMIT"]: _milliwatts(lambda g: g.power_limit),
    FIELD["TEMPERATURE_SHUTDOWN_TLIMIT"]: _offset("shutdown"),
    FIELD["TEMPERATURE_SLOWDOWN_TLIMIT"]: _offset("slowdown"),
    FIELD["TEMPERATURE_MEM_MAX_TLIMIT"]: _offset("memory"),
    FIELD["TEMPERATURE_GPU_MAX_TLIMIT"]: _offset("operating"),
    FIELD["PCIE_COUNT_TX_BYTES"]: _pcie(0.8),
    FIELD["PCIE_COUNT_RX_BYTES"]: _pcie(1.0),
    FIELD["GET_GPU_RECOVERY_ACTION"]: (_UINT, lambda g, now, _: 0),
}

FIELD_CALLS = {"nvmlDeviceGetFieldValues": field_values}
"""The call for a batch of fields, on the handle of a whole GPU."""
