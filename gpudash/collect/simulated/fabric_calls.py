"""The NVML calls about the NVSwitch fabric, which boards with NVLink have joined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpudash.collect.simulated.constants import CONSTANTS
from gpudash.collect.simulated.gpu import Gpu
from gpudash.collect.simulated.noise import key, mix

_NOT_DEGRADED = 2
_UUID_BYTES = 16


class FabricInfo:
    """What pynvml calls `c_nvmlGpuFabricInfo_v2_t`."""

    def __init__(self) -> None:
        self.clusterUuid = bytes(_UUID_BYTES)
        self.status = 0
        self.cliqueId = 0
        self.state = 0
        self.healthMask = 0


def _fill(gpu: Gpu, now: float, info: FabricInfo) -> int | None:
    if gpu.board.nvlink is None:
        return None
    words = (mix(key(gpu.scene.name), number) for number in range(2))
    info.clusterUuid = b"".join((word % 2**64).to_bytes(8, "big") for word in words)
    info.state = CONSTANTS["NVML_GPU_FABRIC_STATE_COMPLETED"]
    info.healthMask = _NOT_DEGRADED
    return 0


FABRIC_CALLS: dict[str, Callable[..., Any]] = {"nvmlDeviceGetGpuFabricInfoV": _fill}
"""Calls about the fabric, on the handle of a whole GPU; the structure is filled in place."""
