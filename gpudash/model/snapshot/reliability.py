"""What is wrong or worn out in a device."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from gpudash.model.fields import Group, metric
from gpudash.model.snapshot.links import DeviceLinks
from gpudash.model.snapshot.xid_event import XidEvent
from gpudash.model.units import Unit

_reliability = partial(metric, Group.RELIABILITY)


class DeviceReliability(DeviceLinks, frozen=True, kw_only=True):
    """The part of a Device about errors and repairs."""

    # fmt: off
    ecc_mode: Annotated[bool | None, _reliability(Unit.NONE,
        "Whether ECC protects the memory.", nvml="nvmlDeviceGetEccMode")] = None
    pending_ecc_mode: Annotated[bool | None, _reliability(Unit.NONE,
        "Whether ECC will protect it after a reboot.", nvml="nvmlDeviceGetEccMode")] = None
    ecc_corrected_volatile_count: Annotated[int | None, _reliability(Unit.COUNT,
        "Corrected memory errors since the driver was loaded.",
        nvml="nvmlDeviceGetTotalEccErrors")] = None
    ecc_uncorrected_volatile_count: Annotated[int | None, _reliability(Unit.COUNT,
        "Uncorrected memory errors since the driver was loaded.",
        nvml="nvmlDeviceGetTotalEccErrors")] = None
    ecc_corrected_aggregate_count: Annotated[int | None, _reliability(Unit.COUNT,
        "Corrected memory errors in the life of the board.",
        nvml="nvmlDeviceGetTotalEccErrors")] = None
    ecc_uncorrected_aggregate_count: Annotated[int | None, _reliability(Unit.COUNT,
        "Uncorrected memory errors in the life of the board.",
        nvml="nvmlDeviceGetTotalEccErrors")] = None
    retired_pages_single_bit_count: Annotated[int | None, _reliability(Unit.COUNT,
        "Pages retired for many corrected errors (before Ampere).",
        nvml="nvmlDeviceGetRetiredPages")] = None
    retired_pages_double_bit_count: Annotated[int | None, _reliability(Unit.COUNT,
        "Pages retired for an uncorrected error (before Ampere).",
        nvml="nvmlDeviceGetRetiredPages")] = None
    retired_pages_pending: Annotated[bool | None, _reliability(Unit.NONE,
        "Whether pages wait for a reboot to be retired.",
        nvml="nvmlDeviceGetRetiredPagesPendingStatus")] = None
    remapped_rows_corrected_count: Annotated[int | None, _reliability(Unit.COUNT,
        "Memory rows replaced for corrected errors (Ampere and newer).",
        nvml="nvmlDeviceGetRemappedRows")] = None
    remapped_rows_uncorrected_count: Annotated[int | None, _reliability(Unit.COUNT,
        "Memory rows replaced for uncorrected errors (Ampere and newer).",
        nvml="nvmlDeviceGetRemappedRows")] = None
    remapped_rows_pending: Annotated[bool | None, _reliability(Unit.NONE,
        "Whether rows wait for a GPU reset to be replaced.",
        nvml="nvmlDeviceGetRemappedRows")] = None
    remapped_rows_failed: Annotated[bool | None, _reliability(Unit.NONE,
        "Whether replacing a row has failed: the board is worn out.",
        nvml="nvmlDeviceGetRemappedRows")] = None
    recovery_action: Annotated[str | None, _reliability(Unit.NONE,
        "What the driver asks for to mend the GPU: none, gpu-reset, node-reboot, drain-p2p, "
        "drain-and-reset, recover-imex-domain, bus-reset or system-reboot.",
        nvml="NVML_FI_DEV_GET_GPU_RECOVERY_ACTION")] = None
    xid_events: Annotated[tuple[XidEvent, ...] | None, _reliability(Unit.NONE,
        "The last XID errors since gpudash began to watch, those alike as one, the newest last; "
        "null where the driver reports none.", nvml="nvmlEventSetWait_v2")] = None
    # fmt: on
