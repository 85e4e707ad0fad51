"""What may be wrong with a driver or a GPU, and what a look at it must come to."""

from collections.abc import Mapping
from typing import NamedTuple

DEVICES = 4

BROKEN = 2

TIMEOUT = 2.0

BEYOND = 60.0
"""Seconds beyond the timeout in which an answer must be there."""


class Fault(NamedTuple):
    """What is wrong, and what a look at it must come to."""

    told: Mapping[str, object]
    status: int
    line: str = ""
    """Pattern of the one line on stderr, empty for silence."""
    state: str = "ok"
    """Of GPU 2; the others are healthy."""
    error: str = ""
    """Pattern of an error in the document."""
    document: bool = True

    @property
    def timeout(self) -> float:
        """Seconds that the driver has: few where a call never returns, else more than it needs."""
        return TIMEOUT if str(self.told.get("HANG")).endswith(":inf") else BEYOND


def of_driver(status: int, line: str, **told: object) -> Fault:
    return Fault(told, status, line, document=False)


def of_call(name: str, error: str = "") -> Fault:
    """A call about GPU 2 that never returns."""
    call = f"nvmlDeviceGet{name}"
    line = f"gpudash: GPU 2: driver not answering 2 s.*{call}"
    return Fault({"HANG": f"{call}:2:inf"}, 10, line, "not-answering", error)


FAULTS = {
    "healthy": Fault({}, 0),
    "lost when looked up": Fault({"LOST": 2}, 15, state="lost"),
    "lost while it is read": Fault({"LOST": "2:20"}, 15, state="lost"),
    "reset required": Fault({"FAIL": "*:2:16"}, 16, state="reset-required"),
    "no power cable": Fault({"FAIL": "nvmlDeviceGetHandleByIndex:2:8"}, 8, state="failed"),
    "no permission on one": Fault({"FAIL": "nvmlDeviceGetHandleByIndex:2:4"}, 4, state="failed"),
    "processes not permitted": Fault(
        {"FAIL": "nvmlDeviceGetComputeRunningProcesses:2:4"},
        0,
        error="GPU 2: processes unknown: no permission",
    ),
    "processes fail": Fault(
        {"FAIL": "nvmlDeviceGetComputeRunningProcesses:2:999"},
        0,
        error="GPU 2: processes unknown: unknown error",
    ),
    "old driver": Fault({"FAIL": "nvmlDeviceGetMemoryInfo_v2:*:13"}, 0),
    "driver not loaded": of_driver(9, "not loaded.*modprobe", INIT_ERR=9),
    "no permission": of_driver(4, "permission.*/dev/nvidia", INIT_ERR=4),
    "versions differ": of_driver(18, "error 18.*reboot, or reload the module", INIT_ERR=18),
    "unknown error": of_driver(231, "NVML error 999", INIT_ERR=999),
    "hangs when opened": of_driver(10, "nvmlInitWithFlags", HANG="nvmlInitWithFlags:*:inf"),
    "hangs when counted": of_driver(10, "nvmlDeviceGetCount", HANG="nvmlDeviceGetCount:*:inf"),
    "hangs when looked up": of_call("HandleByIndex"),
    "hangs in one getter": of_call("MinorNumber"),
    "hangs in its name": of_call("UUID"),
    "hangs in a rate": of_call("UtilizationRates"),
    "hangs in a field": of_call("FieldValues"),
    "hangs in the processes": of_call("ComputeRunningProcesses", "GPU 2: processes unknown"),
    "hangs in the topology": Fault(
        {"HANG": "nvmlDeviceGetP2PStatus:2:inf"}, 10, "topology unknown: .* 2 s", error="topology"
    ),
    "slow getter": Fault({"HANG": "nvmlDeviceGetPowerUsage:2:0.7"}, 0),
    "cold driver": Fault({"INIT_MS": 500}, 0),
    "a thousand processes": Fault({"PROCS_PER_DEVICE": 250}, 0),
}
