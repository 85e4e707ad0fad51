"""NVML's numbers by the names that pynvml gives them, so that the simulation needs no pynvml."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TypeVar

_ERRORS = (
    "SUCCESS ERROR_UNINITIALIZED ERROR_INVALID_ARGUMENT ERROR_NOT_SUPPORTED ERROR_NO_PERMISSION "
    "ERROR_ALREADY_INITIALIZED ERROR_NOT_FOUND ERROR_INSUFFICIENT_SIZE ERROR_INSUFFICIENT_POWER "
    "ERROR_DRIVER_NOT_LOADED ERROR_TIMEOUT ERROR_IRQ_ISSUE ERROR_LIBRARY_NOT_FOUND "
    "ERROR_FUNCTION_NOT_FOUND ERROR_CORRUPTED_INFOROM ERROR_GPU_IS_LOST ERROR_RESET_REQUIRED "
    "ERROR_OPERATING_SYSTEM ERROR_LIB_RM_VERSION_MISMATCH ERROR_IN_USE ERROR_MEMORY ERROR_NO_DATA "
    "ERROR_VGPU_ECC_NOT_SUPPORTED ERROR_INSUFFICIENT_RESOURCES ERROR_FREQ_NOT_SUPPORTED "
    "ERROR_ARGUMENT_VERSION_MISMATCH ERROR_DEPRECATED ERROR_NOT_READY ERROR_GPU_NOT_FOUND "
    "ERROR_INVALID_STATE ERROR_RESET_TYPE_NOT_SUPPORTED"
)

FIELD = {
    "ECC_CURRENT": 1,
    "ECC_PENDING": 2,
    "ECC_SBE_VOL_TOTAL": 3,
    "ECC_DBE_VOL_TOTAL": 4,
    "ECC_SBE_AGG_TOTAL": 5,
    "ECC_DBE_AGG_TOTAL": 6,
    "RETIRED_SBE": 29,
    "RETIRED_DBE": 30,
    "RETIRED_PENDING": 31,
    "PERF_POLICY_POWER": 74,
    "CLOCKS_EVENT_REASON_SW_POWER_CAP": 74,
    "PERF_POLICY_THERMAL": 75,
    "PERF_POLICY_SYNC_BOOST": 76,
    "PERF_POLICY_BOARD_LIMIT": 77,
    "CLOCKS_EVENT_REASON_SYNC_BOOST": 76,
    "MEMORY_TEMP": 82,
    "TOTAL_ENERGY_CONSUMPTION": 83,
    "NVLINK_SPEED_MBPS_COMMON": 90,
    "NVLINK_LINK_COUNT": 91,
    "PCIE_REPLAY_COUNTER": 94,
    "NVLINK_THROUGHPUT_DATA_TX": 138,
    "NVLINK_THROUGHPUT_DATA_RX": 139,
    "NVLINK_THROUGHPUT_RAW_TX": 140,
    "NVLINK_THROUGHPUT_RAW_RX": 141,
    "REMAPPED_COR": 142,
    "REMAPPED_UNC": 143,
    "REMAPPED_PENDING": 144,
    "REMAPPED_FAILURE": 145,
    "NVSWITCH_CONNECTED_LINK_COUNT": 147,
    "NVLINK_ERROR_DL_REPLAY": 161,
    "NVLINK_ERROR_DL_RECOVERY": 162,
    "NVLINK_ERROR_DL_CRC": 163,
    "NVLINK_GET_SPEED": 164,
    "NVLINK_GET_STATE": 165,
    "NVLINK_GET_VERSION": 166,
    "POWER_AVERAGE": 185,
    "POWER_INSTANT": 186,
    "POWER_MIN_LIMIT": 187,
    "POWER_MAX_LIMIT": 188,
    "POWER_DEFAULT_LIMIT": 189,
    "POWER_CURRENT_LIMIT": 190,
    "POWER_REQUESTED_LIMIT": 192,
    "TEMPERATURE_SHUTDOWN_TLIMIT": 193,
    "TEMPERATURE_SLOWDOWN_TLIMIT": 194,
    "TEMPERATURE_MEM_MAX_TLIMIT": 195,
    "TEMPERATURE_GPU_MAX_TLIMIT": 196,
    "PCIE_COUNT_TX_BYTES": 197,
    "PCIE_COUNT_RX_BYTES": 198,
    "NVLINK_COUNT_XMIT_BYTES": 202,
    "NVLINK_COUNT_RCV_BYTES": 204,
    "GET_GPU_RECOVERY_ACTION": 230,
    "CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN": 269,
    "CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN": 270,
    "CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN": 271,
}
"""Field ids by their names without `NVML_FI_DEV_`."""

_REASONS = {
    "GpuIdle": 0x1,
    "ApplicationsClocksSetting": 0x2,
    "SwPowerCap": 0x4,
    "HwSlowdown": 0x8,
    "SyncBoost": 0x10,
    "SwThermalSlowdown": 0x20,
    "HwThermalSlowdown": 0x40,
    "HwPowerBrakeSlowdown": 0x80,
    "DisplayClockSetting": 0x100,
}

_ENUMS: dict[str, dict[str, int]] = {
    "INIT_FLAG": {"NO_GPUS": 1, "NO_ATTACH": 2},
    "FEATURE": {"DISABLED": 0, "ENABLED": 1},
    "CLOCK": {"GRAPHICS": 0, "SM": 1, "MEM": 2, "VIDEO": 3},
    "TEMPERATURE": {"GPU": 0},
    "TEMPERATURE_THRESHOLD": {"SHUTDOWN": 0, "SLOWDOWN": 1, "MEM_MAX": 2, "GPU_MAX": 3},
    "MEMORY_ERROR_TYPE": {"CORRECTED": 0, "UNCORRECTED": 1},
    "PAGE_RETIREMENT_CAUSE": {"MULTIPLE_SINGLE_BIT_ECC_ERRORS": 0, "DOUBLE_BIT_ECC_ERROR": 1},
    "COMPUTEMODE": {
        "DEFAULT": 0,
        "EXCLUSIVE_THREAD": 1,
        "PROHIBITED": 2,
        "EXCLUSIVE_PROCESS": 3,
    },
    "DRIVER": {"WDDM": 0, "WDM": 1, "MCDM": 2},
    "DEVICE_MIG": {"DISABLE": 0, "ENABLE": 1},
    "PSTATE": {"UNKNOWN": 32},
    "PCIE_UTIL": {"TX_BYTES": 0, "RX_BYTES": 1},
    "DEVICE_ARCH": {
        "KEPLER": 2,
        "MAXWELL": 3,
        "PASCAL": 4,
        "VOLTA": 5,
        "TURING": 6,
        "AMPERE": 7,
        "ADA": 8,
        "HOPPER": 9,
        "BLACKWELL": 10,
        "UNKNOWN": 0xFFFFFFFF,
    },
    "TOPOLOGY": {
        "INTERNAL": 0,
        "SINGLE": 10,
        "MULTIPLE": 20,
        "HOSTBRIDGE": 30,
        "NODE": 40,
        "CPU": 40,
        "SYSTEM": 50,
    },
    "P2P_CAPS_INDEX": {"READ": 0, "WRITE": 1, "NVLINK": 2, "ATOMICS": 3, "PROP": 4},
    "P2P_STATUS": {
        "OK": 0,
        "CHIPSET_NOT_SUPPORTED": 1,
        "GPU_NOT_SUPPORTED": 2,
        "IOH_TOPOLOGY_NOT_SUPPORTED": 3,
        "DISABLED_BY_REGKEY": 4,
        "NOT_SUPPORTED": 5,
        "UNKNOWN": 6,
    },
    "DEVICE_ADDRESSING_MODE": {"NONE": 0, "HMM": 1, "ATS": 2},
    "GPU_FABRIC_STATE": {"NOT_SUPPORTED": 0, "NOT_STARTED": 1, "IN_PROGRESS": 2, "COMPLETED": 3},
    "AFFINITY_SCOPE": {"NODE": 0, "SOCKET": 1},
    "NVLINK_DEVICE_TYPE": {"GPU": 0, "IBMNPU": 1, "SWITCH": 2, "UNKNOWN": 255},
    "VALUE_TYPE": {
        "DOUBLE": 0,
        "UNSIGNED_INT": 1,
        "UNSIGNED_LONG": 2,
        "UNSIGNED_LONG_LONG": 3,
        "SIGNED_LONG_LONG": 4,
        "SIGNED_INT": 5,
        "UNSIGNED_SHORT": 6,
    },
}


CONSTANTS: dict[str, int] = {
    **{f"NVML_{name}": number for number, name in enumerate(_ERRORS.split())},
    "NVML_ERROR_UNKNOWN": 999,
    **{
        f"NVML_{family}_{name}": number
        for family, members in _ENUMS.items()
        for name, number in members.items()
    },
    **{f"NVML_PSTATE_{state}": state for state in range(16)},
    **{f"NVML_FI_DEV_{name}": number for name, number in FIELD.items()},
    **{f"nvmlClocksEventReason{name}": bit for name, bit in _REASONS.items()},
    **{f"nvmlClocksThrottleReason{name}": bit for name, bit in _REASONS.items()},
    "nvmlEventTypeXidCriticalError": 0x8,
    "NVML_VOLATILE_ECC": 0,
    "NVML_AGGREGATE_ECC": 1,
    "NVML_NVLINK_MAX_LINKS": 36,
    "NVML_GPM_METRICS_GET_VERSION": 1,
    "nvmlMemory_v2": 0x02000028,
}
"""Every constant that the simulated library offers."""


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
