"""What connects a device: PCIe, NVLink and the NVLink fabric."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from gpudash.metric import Group, metric
from gpudash.snapshot.power import DevicePower
from gpudash.units import Unit

_pcie = partial(metric, Group.PCIE)
_nvlink = partial(metric, Group.NVLINK)


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
    pcie_tx_bytes_per_second: Annotated[int | None, _pcie(Unit.BYTE_PER_SECOND,
        "What the GPU sent over PCIe since the last sample; null in a first one.",
        nvml="NVML_FI_DEV_PCIE_COUNT_TX_BYTES, NVML_GPM_METRIC_PCIE_TX_PER_SEC")] = None
    pcie_rx_bytes_per_second: Annotated[int | None, _pcie(Unit.BYTE_PER_SECOND,
        "What the GPU received over PCIe since the last sample; null in a first one.",
        nvml="NVML_FI_DEV_PCIE_COUNT_RX_BYTES, NVML_GPM_METRIC_PCIE_RX_PER_SEC")] = None

    nvlink_count: Annotated[int | None, _nvlink(Unit.COUNT,
        "NVLinks that are up; null on boards that have none.",
        nvml="nvmlDeviceGetNvLinkState")] = None
    nvlink_tx_bytes_per_second: Annotated[int | None, _nvlink(Unit.BYTE_PER_SECOND,
        "Payload sent over all NVLinks since the last sample; null in a first one.",
        nvml="NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, "
        "NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC")] = None
    nvlink_rx_bytes_per_second: Annotated[int | None, _nvlink(Unit.BYTE_PER_SECOND,
        "Payload received over all NVLinks since the last sample; null in a first one.",
        nvml="NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, "
        "NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC")] = None
    # fmt: on
