"""The columns of devices."""

from __future__ import annotations

from gpudash.analysis.health import levels
from gpudash.analysis.labels import pcie_link, short_name
from gpudash.analysis.table import Column, DeviceRow, amount, number, word
from gpudash.model.units import ABSENT, celsius, percent, ratio, short_size, sum_known, watts


def _name(row: DeviceRow) -> str:
    name = short_name(row.device)
    return f"  {name}" if row.device.is_mig else name


def _memory(row: DeviceRow) -> str:
    total = row.device.memory_total_bytes
    used = short_size(row.device.memory_used_bytes)
    return used if total is None else f"{used}/{short_size(total)}"


def _memory_percent(row: DeviceRow) -> float | None:
    share = levels.memory_share(row.device)
    return None if share is None else 100 * share


def _power(row: DeviceRow) -> str:
    limit = row.device.enforced_power_limit_mw
    used = watts(row.device.power_usage_mw)
    return used if limit is None else f"{used.removesuffix('W')}/{watts(limit)}"


def _of_max(clock_mhz: int | None, max_mhz: int | None) -> str:
    """Return a clock and its maximum: `1755/1980MHz`."""
    if clock_mhz is None:
        return ABSENT
    return f"{clock_mhz}MHz" if max_mhz is None else f"{clock_mhz}/{max_mhz}MHz"


def _pcie_rates(row: DeviceRow) -> tuple[int | None, int | None]:
    return row.device.pcie_tx_bytes_per_second, row.device.pcie_rx_bytes_per_second


def _nvlink_rates(row: DeviceRow) -> tuple[int | None, int | None]:
    return row.device.nvlink_tx_bytes_per_second, row.device.nvlink_rx_bytes_per_second


def _both_ways(sent: int | None, received: int | None) -> str:
    """Return bytes per second sent and received, with aligned slashes."""
    if sent is None and received is None:
        return ABSENT
    return f"{short_size(sent):>5}/{short_size(received):<5}"


def _ecc(row: DeviceRow) -> str:
    """Return memory errors since the driver was loaded: `3`, or `3+1` with uncorrected ones."""
    corrected, uncorrected = _errors(row)
    if uncorrected:
        return f"{ABSENT if corrected is None else corrected}+{uncorrected}"
    return ABSENT if corrected is None else str(corrected)


def _errors(row: DeviceRow) -> tuple[int | None, int | None]:
    return row.device.ecc_corrected_volatile_count, row.device.ecc_uncorrected_volatile_count


def _performance_state(row: DeviceRow) -> str:
    state = row.device.performance_state
    return ABSENT if state is None else f"P{state}"


def _share(
    key: str, header: str, field: str, *, priority: int, only_used: bool = False
) -> Column[DeviceRow]:
    """Return a column of a percentage; with `only_used`, shown while one is above zero."""
    return amount(
        key,
        header,
        lambda row: getattr(row.device, field),
        percent,
        4,
        least=4,
        priority=priority,
        worth=(lambda row: bool(getattr(row.device, field))) if only_used else None,
    )


DEVICE_COLUMNS: tuple[Column[DeviceRow], ...] = (
    word("index", "GPU", lambda row: row.label, 6, sort_key=lambda row: row.device.index),
    word("name", "NAME", _name, 24, sort_key=lambda row: row.device.name or "", priority=3),
    amount(
        "utilization",
        "UTIL",
        lambda row: row.device.gpu_utilization_percent,
        percent,
        4,
        level=lambda row: levels.utilization_level(row.device),
        share=lambda row: ratio(row.device.gpu_utilization_percent, 100),
    ),
    _share("sm_active", "SM", "sm_active_percent", priority=4),
    Column(
        key="memory",
        header="GPU-MEM",
        text=_memory,
        sort_key=lambda row: number(row.device.memory_used_bytes),
        width=11,
        align=">",
        level=lambda row: levels.memory_level(row.device),
        share=lambda row: levels.memory_share(row.device),
    ),
    amount(
        "memory_percent",
        "MEM%",
        _memory_percent,
        percent,
        4,
        priority=4,
        level=lambda row: levels.memory_level(row.device),
    ),
    amount(
        "temperature",
        "TEMP",
        lambda row: row.device.temperature_celsius,
        celsius,
        4,
        priority=1,
        level=lambda row: levels.temperature_level(row.device),
    ),
    amount(
        "memory_temperature",
        "MTEMP",
        lambda row: row.device.memory_temperature_celsius,
        celsius,
        5,
        priority=8,
        level=lambda row: levels.memory_temperature_level(row.device),
    ),
    _share("fan", "FAN", "fan_speed_percent", priority=6),
    Column(
        key="power",
        header="POWER",
        text=_power,
        sort_key=lambda row: number(row.device.power_usage_mw),
        width=10,
        align=">",
        priority=2,
        level=lambda row: levels.power_level(row.device),
    ),
    Column(
        key="sm_clock",
        header="SM CLK",
        text=lambda row: _of_max(row.device.sm_clock_mhz, row.device.max_sm_clock_mhz),
        sort_key=lambda row: number(row.device.sm_clock_mhz),
        width=12,
        align=">",
        priority=7,
    ),
    Column(
        key="memory_clock",
        header="MEM CLK",
        text=lambda row: _of_max(row.device.memory_clock_mhz, row.device.max_memory_clock_mhz),
        sort_key=lambda row: number(row.device.memory_clock_mhz),
        width=14,
        align=">",
        priority=11,
    ),
    Column(
        key="performance_state",
        header="P",
        text=_performance_state,
        sort_key=lambda row: number(row.device.performance_state),
        width=3,
        priority=6,
    ),
    Column(
        key="pcie_link",
        header="PCIE",
        text=lambda row: pcie_link(row.device),
        sort_key=lambda row: number(row.device.pcie_link_width),
        width=8,
        priority=6,
    ),
    Column(
        key="compute_mode",
        header="COMPUTE",
        text=lambda row: (row.device.compute_mode or ABSENT).removesuffix("-process"),
        sort_key=lambda row: row.device.compute_mode or "",
        width=10,
        priority=6,
    ),
    Column(
        key="pcie",
        header="PCIE TX/RX",
        text=lambda row: _both_ways(*_pcie_rates(row)),
        sort_key=lambda row: number(sum_known(_pcie_rates(row))),
        width=11,
        align=">",
        priority=5,
        worth=lambda row: any(_pcie_rates(row)),
    ),
    Column(
        key="nvlink",
        header="NVLINK TX/RX",
        text=lambda row: _both_ways(*_nvlink_rates(row)),
        sort_key=lambda row: number(sum_known(_nvlink_rates(row))),
        width=12,
        align=">",
        priority=9,
    ),
    _share("encoder", "ENC", "encoder_utilization_percent", priority=4, only_used=True),
    _share("decoder", "DEC", "decoder_utilization_percent", priority=4, only_used=True),
    Column(
        key="ecc",
        header="ECC",
        text=_ecc,
        sort_key=lambda row: number(sum_known(_errors(row))),
        width=8,
        align=">",
        priority=7,
        worth=lambda row: any(_errors(row)),
        level=lambda row: levels.ecc_level(row.device),
    ),
    word(
        "status", "STATUS", lambda row: row.state.word, 9, priority=1, level=lambda row: row.level
    ),
)
