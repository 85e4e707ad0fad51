"""NVML's numbers by the names that pynvml gives them, so that the simulation needs no pynvml."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TypeVar

FIELD = {
    "PERF_POLICY_POWER": 74,
    "PERF_POLICY_THERMAL": 75,
    "PERF_POLICY_SYNC_BOOST": 76,
    "PERF_POLICY_BOARD_LIMIT": 77,
    "MEMORY_TEMP": 82,
    "TOTAL_ENERGY_CONSUMPTION": 83,
    "NVLINK_LINK_COUNT": 91,
    "NVLINK_THROUGHPUT_DATA_TX": 138,
    "NVLINK_THROUGHPUT_DATA_RX": 139,
    "NVSWITCH_CONNECTED_LINK_COUNT": 147,
    "NVLINK_ERROR_DL_REPLAY": 161,
    "NVLINK_ERROR_DL_RECOVERY": 162,
    "NVLINK_ERROR_DL_CRC": 163,
    "POWER_AVERAGE": 185,
    "POWER_INSTANT": 186,
    "TEMPERATURE_SHUTDOWN_TLIMIT": 193,
    "TEMPERATURE_SLOWDOWN_TLIMIT": 194,
    "TEMPERATURE_MEM_MAX_TLIMIT": 195,
    "TEMPERATURE_GPU_MAX_TLIMIT": 196,
    "PCIE_COUNT_TX_BYTES": 197,
    "PCIE_COUNT_RX_BYTES": 198,
    "GET_GPU_RECOVERY_ACTION": 230,
    "CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN": 269,
    "CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN": 270,
    "CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN": 271,
}
"""Field ids by their names without `NVML_FI_DEV_`."""

CONSTANTS: dict[str, int] = {
    "NVML_ERROR_UNINITIALIZED": 1,
    "NVML_ERROR_INVALID_ARGUMENT": 2,
    "NVML_ERROR_NOT_SUPPORTED": 3,
    "NVML_ERROR_NOT_FOUND": 6,
    "NVML_ERROR_TIMEOUT": 10,
    "NVML_ERROR_GPU_IS_LOST": 15,
    "NVML_INIT_FLAG_NO_GPUS": 1,
    "NVML_TOPOLOGY_INTERNAL": 0,
    "NVML_TOPOLOGY_SINGLE": 10,
    "NVML_TOPOLOGY_MULTIPLE": 20,
    "NVML_TOPOLOGY_NODE": 40,
    "NVML_TOPOLOGY_SYSTEM": 50,
    "NVML_P2P_STATUS_OK": 0,
    "NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED": 1,
    "NVML_P2P_STATUS_GPU_NOT_SUPPORTED": 2,
    "NVML_P2P_STATUS_NOT_SUPPORTED": 5,
    "NVML_GPU_FABRIC_STATE_COMPLETED": 3,
    "NVML_NVLINK_DEVICE_TYPE_SWITCH": 2,
    "NVML_GPM_METRICS_GET_VERSION": 1,
    "nvmlEventTypeXidCriticalError": 0x8,
    **{f"NVML_FI_DEV_{name}": number for name, number in FIELD.items()},
}
"""The constants that the simulated library offers: those that it and its reader use."""


class NVMLError(Exception):
    """A call that NVML answered with a return value other than 0."""

    def __init__(self, value: int) -> None:
        super().__init__(f"NVML return value {value}")
        self.value = value


class NVMLLibraryMismatchError(Exception):
    """A call for which the driver's library is too old; never raised here."""


_INVALID = CONSTANTS["NVML_ERROR_INVALID_ARGUMENT"]

T = TypeVar("T")

Record = SimpleNamespace
"""A C structure: its members are attributes."""


def pick(values: tuple[T, ...], index: int) -> T:
    """Return one of the values an enum chooses from.

    Raises NVMLError INVALID_ARGUMENT when it is none of them.
    """
    if not 0 <= index < len(values):
        raise NVMLError(_INVALID)
    return values[index]
