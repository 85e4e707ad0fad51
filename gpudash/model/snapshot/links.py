"""What connects a device: PCIe, NVLink and the NVLink fabric."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from gpudash.model.fields import Group, metric
from gpudash.model.snapshot.power import DevicePower
from gpudash.model.units import Unit

_pcie = partial(metric, Group.PCIE)
_nvlink = partial(metric, Group.NVLINK)


_PCIE_LANE = {1: 250e6, 2: 500e6, 3: 985e6, 4: 1969e6, 5: 3938e6, 6: 7563e6}
"""Bytes per second and lane, each way, after the line code of the generation."""


def pcie_capacity(generation: int | None, width: int | None) -> float | None:
    """Return the bytes per second that such a PCIe link carries each way, None if unknown."""
    lane = _PCIE_LANE.get(generation or 0)
    return None if lane is None or not width else lane * width


class DeviceLinks(DevicePower, frozen=True, kw_only=True):
    """The part of a Device about its links."""

    # fmt: off
    pcie_link_generation: Annotated[int | None, _pcie(Unit.NONE,
        "PCIe generation now; drops at idle to save power.",
        nvml="nvmlDeviceGetCurrPcieLinkGeneration")] = None
    max_pcie_link_generation: Annotated[int | None, _pcie(Unit.NONE,
        "Highest PCIe generation of GPU and slot together.",
        nvml="nvmlDeviceGetMaxPcieLinkGeneration")] = None
    pcie_link_width: Annotated[int | None, _pcie(Unit.COUNT,
        "PCIe lanes now.", nvml="nvmlDeviceGetCurrPcieLinkWidth")] = None
    max_pcie_link_width: Annotated[int | None, _pcie(Unit.COUNT,
        "Most PCIe lanes of GPU and slot together.", nvml="nvmlDeviceGetMaxPcieLinkWidth")] = None
    pcie_replay_count: Annotated[int | None, _pcie(Unit.COUNT,
        "PCIe packets sent again since the driver was loaded.",
        nvml="nvmlDeviceGetPcieReplayCounter")] = None
    pcie_replays_per_second: Annotated[float | None, _pcie(Unit.PER_SECOND,
        "PCIe packets sent again over the last seconds.",
        nvml="nvmlDeviceGetPcieReplayCounter")] = None
    pcie_tx_bytes_per_second: Annotated[int | None, _pcie(Unit.BYTE_PER_SECOND,
        "What the GPU sent over PCIe since the last sample; null in a first one, and where a "
        "counter of 32 bits may have gone round more than once since then.",
        nvml="NVML_FI_DEV_PCIE_COUNT_TX_BYTES, NVML_GPM_METRIC_PCIE_TX_PER_SEC, "
        "nvmlDeviceGetPcieThroughput")] = None
    pcie_rx_bytes_per_second: Annotated[int | None, _pcie(Unit.BYTE_PER_SECOND,
        "What the GPU received over PCIe since the last sample; null in a first one, and where a "
        "counter of 32 bits may have gone round more than once since then.",
        nvml="NVML_FI_DEV_PCIE_COUNT_RX_BYTES, NVML_GPM_METRIC_PCIE_RX_PER_SEC, "
        "nvmlDeviceGetPcieThroughput")] = None

    nvlink_count: Annotated[int | None, _nvlink(Unit.COUNT,
        "NVLinks that are up; null on boards that have none.",
        nvml="nvmlDeviceGetNvLinkState")] = None
    nvlink_total_count: Annotated[int | None, _nvlink(Unit.COUNT,
        "NVLinks that the GPU has, up or not; boards may leave some unused.",
        nvml="nvmlDeviceGetNvLinkState")] = None
    nvlink_inactive_links: Annotated[tuple[int, ...] | None, _nvlink(Unit.NONE,
        "Numbers of the NVLinks that are not up.", nvml="nvmlDeviceGetNvLinkState")] = None
    nvlink_version: Annotated[str | None, _nvlink(Unit.NONE,
        "Version of NVLink, 4.0 on Hopper.", nvml="nvmlDeviceGetNvLinkVersion")] = None
    nvlink_tx_bytes_per_second: Annotated[int | None, _nvlink(Unit.BYTE_PER_SECOND,
        "Payload sent over all NVLinks since the last sample; null in a first one.",
        nvml="NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, "
        "NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC")] = None
    nvlink_rx_bytes_per_second: Annotated[int | None, _nvlink(Unit.BYTE_PER_SECOND,
        "Payload received over all NVLinks since the last sample; null in a first one.",
        nvml="NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, "
        "NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC")] = None
    nvlink_crc_error_count: Annotated[int | None, _nvlink(Unit.COUNT,
        "Packets that arrived damaged since the driver was loaded, over all NVLinks that are up.",
        nvml="NVML_FI_DEV_NVLINK_ERROR_DL_CRC, "
        "nvmlDeviceGetNvLinkErrorCounter")] = None
    nvlink_crc_errors_per_second: Annotated[float | None, _nvlink(Unit.PER_SECOND,
        "Packets that arrived damaged over the last seconds.",
        nvml="NVML_FI_DEV_NVLINK_ERROR_DL_CRC, "
        "nvmlDeviceGetNvLinkErrorCounter")] = None
    nvlink_replay_count: Annotated[int | None, _nvlink(Unit.COUNT,
        "Packets sent again since the driver was loaded, over all NVLinks that are up.",
        nvml="NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY, "
        "nvmlDeviceGetNvLinkErrorCounter")] = None
    nvlink_replays_per_second: Annotated[float | None, _nvlink(Unit.PER_SECOND,
        "Packets sent again over the last seconds.",
        nvml="NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY, "
        "nvmlDeviceGetNvLinkErrorCounter")] = None
    nvlink_recovery_count: Annotated[int | None, _nvlink(Unit.COUNT,
        "Times that an NVLink was trained anew since the driver was loaded, over all that are up.",
        nvml="NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY, "
        "NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS, "
        "nvmlDeviceGetNvLinkErrorCounter")] = None
    nvlink_recoveries_per_second: Annotated[float | None, _nvlink(Unit.PER_SECOND,
        "Times that a link was trained anew over the last seconds.",
        nvml="NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY, "
        "NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS, "
        "nvmlDeviceGetNvLinkErrorCounter")] = None
    nvlink_receive_error_count: Annotated[int | None, _nvlink(Unit.COUNT,
        "Errors in what all NVLinks received since the driver was loaded (Blackwell and newer).",
        nvml="NVML_FI_DEV_NVLINK_COUNT_RCV_ERRORS")] = None
    nvlink_receive_errors_per_second: Annotated[float | None, _nvlink(Unit.PER_SECOND,
        "Errors in what all NVLinks received over the last seconds (Blackwell and newer).",
        nvml="NVML_FI_DEV_NVLINK_COUNT_RCV_ERRORS")] = None
    nvlink_erring_links: Annotated[tuple[int, ...] | None, _nvlink(Unit.NONE,
        "Numbers of the NVLinks of which an error counter rose over the last seconds.")] = None
    fabric_state: Annotated[str | None, _nvlink(Unit.NONE,
        "How far it has joined the NVSwitch fabric: not-started, in-progress or completed; null "
        "outside of one. CUDA does not start before it is completed.",
        nvml="nvmlDeviceGetGpuFabricInfoV")] = None
    fabric_status_code: Annotated[int | None, _nvlink(Unit.NONE,
        "NVML's return value of joining the fabric once that is completed, 0 if it worked.",
        nvml="nvmlDeviceGetGpuFabricInfoV")] = None
    fabric_bandwidth_degraded: Annotated[bool | None, _nvlink(Unit.NONE,
        "Whether the fabric gives it less bandwidth than it should.",
        nvml="nvmlDeviceGetGpuFabricInfoV")] = None
    fabric_cluster_uuid: Annotated[str | None, _nvlink(Unit.NONE,
        "NVLink domain that it is part of, the same on all its hosts.",
        nvml="nvmlDeviceGetGpuFabricInfoV")] = None
    fabric_clique_id: Annotated[int | None, _nvlink(Unit.NONE,
        "Part of that domain whose GPUs reach each other over NVLink.",
        nvml="nvmlDeviceGetGpuFabricInfoV")] = None
    # fmt: on
