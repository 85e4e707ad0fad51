"""Everything gpudash knows about a host at one instant, frozen; no I/O.

Each field is declared once, with its group, unit, help sentence and NVML call; JSON, its schema,
the detail screen and the reference tables follow from that. A field that is None is a value the
device does not have, the driver did not give or the caller may not see; 0 means zero.
"""

from __future__ import annotations

from datetime import datetime, timezone
from functools import partial
from typing import Annotated

from msgspec import Meta, Struct

from gpudash.model.fields import Group, metric
from gpudash.model.snapshot.activity import UtilizationSource
from gpudash.model.snapshot.device import Device
from gpudash.model.snapshot.fault import Fault, hide_gpus, unlisted_uuids
from gpudash.model.snapshot.finding import Evidence, Finding, FindingLevel
from gpudash.model.snapshot.holder import Holder
from gpudash.model.snapshot.host import Host
from gpudash.model.snapshot.identity import DeviceState
from gpudash.model.snapshot.lease import Lease
from gpudash.model.snapshot.links import pcie_capacity
from gpudash.model.snapshot.process import Job, JobKind, Process, ProcessDevice
from gpudash.model.snapshot.topology import P2PStatus, Topology
from gpudash.model.snapshot.xid_event import XidEvent
from gpudash.model.text import SafeText
from gpudash.model.units import Unit

__all__ = [
    "EMPTY",
    "SCHEMA",
    "Device",
    "DeviceState",
    "Evidence",
    "Fault",
    "Finding",
    "FindingLevel",
    "Holder",
    "Host",
    "Job",
    "JobKind",
    "Lease",
    "P2PStatus",
    "Process",
    "ProcessDevice",
    "Snapshot",
    "Topology",
    "UtilizationSource",
    "XidEvent",
    "are_untold",
    "pcie_capacity",
    "unlisted_uuids",
]

SCHEMA = 1
"""Version of the document; it only grows: fields are added, never renamed or removed."""

_document = partial(metric, Group.DOCUMENT)


class Snapshot(Struct, frozen=True, kw_only=True):
    """One host at one instant: the document that gpudash prints, pipes, records and shows."""

    # fmt: off
    schema: Annotated[int, _document(Unit.NONE,
        "Version of this document; fields are only added.")] = SCHEMA
    taken_at: Annotated[datetime, Meta(tz=True), _document(Unit.NONE,
        "When it was taken, RFC 3339 in UTC.")]
    host: Annotated[Host, _document(Unit.NONE, "The machine and its driver.")]
    devices: Annotated[tuple[Device, ...], _document(Unit.NONE,
        "GPUs by index, each followed by its MIG instances.")] = ()
    processes: Annotated[tuple[Process, ...], _document(Unit.NONE,
        "Processes on any device, the largest holder first.")] = ()
    topology: Annotated[Topology | None, _document(Unit.NONE,
        "Links between the GPUs, null where NVML cannot tell.")] = None
    errors: Annotated[tuple[Fault, ...], _document(Unit.NONE,
        "What could not be read beyond a single device.")] = ()
    findings: Annotated[tuple[Finding, ...] | None, _document(Unit.NONE,
        "What is wrong or wasteful, the worst first; null if nobody has looked.")] = None
    leases: Annotated[tuple[Lease, ...], _document(Unit.NONE,
        "GPUs that somebody has reserved with `gpudash run`.")] = ()
    # fmt: on


EMPTY = Snapshot(
    host=Host(hostname=SafeText("")), taken_at=datetime(1970, 1, 1, tzinfo=timezone.utc)
)
"""The snapshot before the first one: no host, no devices."""


def are_untold(snapshot: Snapshot) -> bool:
    """Whether it is not known which GPUs there are: nobody has looked, or the driver was silent."""
    return snapshot is EMPTY or (not snapshot.devices and hide_gpus(snapshot.errors))
