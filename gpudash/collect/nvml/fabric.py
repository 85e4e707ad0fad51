"""Whether a GPU has joined the NVSwitch fabric, without which CUDA does not start on it."""

from __future__ import annotations

from typing import Any

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.library import Library

_STATES = {1: "not-started", 2: "in-progress", 3: "completed"}
_COMPLETED = 3
_DEGRADED = {1: True, 2: False}
_DEGRADED_MASK = 0x3
FIELDS = (
    "fabric_state",
    "fabric_status_code",
    "fabric_bandwidth_degraded",
    "fabric_cluster_uuid",
    "fabric_clique_id",
)
"""What is told of it."""

_CALLS = (
    ("nvmlDeviceGetGpuFabricInfoV", "c_nvmlGpuFabricInfo_v2_t"),
    ("nvmlDeviceGetGpuFabricInfo", "c_nvmlGpuFabricInfo_t"),
)


class Fabric:
    """The fabric as one GPU sees it, from look to look; one outside of any is not asked again."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._calls = list(_CALLS)

    def facts(self, handle: Any) -> tuple[dict[str, Any], int]:
        """Return what there is to tell, and NVML's value where the GPU says that it is gone."""
        while self._calls:
            call, structure = self._calls[0]
            info, code = self._library.filled(call, structure, handle)
            if code in codes.DEAD:
                return {}, code
            if not code and info.state not in _STATES:
                self._calls.clear()
            elif code not in codes.PERMANENT:
                return dict.fromkeys(FIELDS) if code else _told(info), codes.SUCCESS
            else:
                self._calls.pop(0)
        return dict.fromkeys(FIELDS), codes.SUCCESS


def _told(info: Any) -> dict[str, Any]:
    health = getattr(info, "healthMask", 0)
    is_member = info.state == _COMPLETED and info.status == codes.SUCCESS
    cluster = bytes(info.clusterUuid).hex()
    is_named = is_member and cluster.strip("0") != ""
    values = (
        _STATES[info.state],
        info.status if info.state == _COMPLETED else None,
        _DEGRADED.get(health & _DEGRADED_MASK),
        _dashed(cluster) if is_named else None,
        info.cliqueId if is_named else None,
    )
    return dict(zip(FIELDS, values, strict=True))


def _dashed(text: str) -> str:
    """Return a UUID as it is written: 8-4-4-4-12 digits."""
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
