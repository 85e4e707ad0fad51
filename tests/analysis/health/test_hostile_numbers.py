"""Hosts of which a few values are anything at all: no finding of theirs is refused by the wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gpudash.analysis.health.engine import Diagnosis
from gpudash.model.device import Device
from gpudash.model.process import Lease, Process, ProcessDevice
from gpudash.model.snapshot import Host, Snapshot
from gpudash.model.wire import decode, encode
from tests.analysis.health.examined import host
from tests.factories import (
    gpu_uuid,
    make_device,
    make_host,
    make_process,
    make_process_device,
    make_topology,
)
from tests.strategies import values


def like(
    make: Callable[..., Any], kind: type[msgspec.Struct], *kept: str
) -> st.SearchStrategy[Any]:
    """What a factory makes, a few fields of which are any value of their types."""
    fields = {f.name: values(f.type) for f in msgspec.structs.fields(kind) if f.name not in kept}
    return st.fixed_dictionaries({}, optional=fields).map(lambda given: make(**given))


def make_lease(**overrides: Any) -> Lease:
    return Lease(**{"uuid": gpu_uuid(0), "index": 0, **overrides}, is_used=False)


def on_two_gpus(
    one: Device, other: Device, process: Process, share: ProcessDevice, lease: Lease, of: Host
) -> Snapshot:
    second = {"index": 1, "uuid": gpu_uuid(1)}
    shares = (share, replace(share, **second))
    return host(
        devices=(one, replace(other, **second)),
        processes=(replace(process, devices=shares),),
        topology=make_topology(2, p2p_read=(("X", "CNS"), ("CNS", "X"))),
        leases=(lease,),
        host=of,
    )


DEVICES = like(make_device, Device, "uuid", "index", "parent_uuid")
HOSTS = st.builds(
    on_two_gpus,
    DEVICES,
    DEVICES,
    like(make_process, Process, "devices"),
    like(make_process_device, ProcessDevice, "uuid", "index", "type"),
    like(make_lease, Lease, "uuid", "is_used"),
    like(make_host, Host),
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(HOSTS, min_size=1, max_size=4))
def test_no_finding_is_refused_by_the_wire(samples: list[Snapshot]) -> None:
    diagnosis = Diagnosis()
    for sample in samples:
        judged = diagnosis.examine(sample)
        assert judged.findings
        assert all(finding.sentence.isprintable() for finding in judged.findings)
        assert decode(encode(judged)) == judged
