from __future__ import annotations

import time
from datetime import datetime, timezone

import pytest
from msgspec.structs import replace

from gpudash.fleet.collector import Collector, has_answer, is_settled, merge, narrowed
from gpudash.fleet.demo import DemoSource
from gpudash.fleet.reduce import Reducer
from gpudash.fleet.source import Reading
from gpudash.fleet.users import Prices
from gpudash.model.fleet import FleetDevice, FleetHost, FleetJob, FleetSource
from gpudash.model.text import clean

PROMETHEUS = FleetSource(kind="prometheus", name=clean("http://a"))
SSH = FleetSource(kind="ssh", name=clean("gpu01"))


def host(name: str, *uuids: str, **fields: object) -> FleetHost:
    """Return a host whose GPUs have these UUIDs."""
    devices = tuple(FleetDevice(index=n, uuid=clean(uuid)) for n, uuid in enumerate(uuids))
    given = {"age_seconds": 1.0, "devices": devices, **fields}
    return FleetHost(name=clean(name), **given)  # type: ignore[arg-type]


def prometheus(*hosts: FleetHost, **fields: object) -> Reading:
    return Reading(report=PROMETHEUS, hosts=hosts, **fields)  # type: ignore[arg-type]


def ssh(*hosts: FleetHost) -> Reading:
    return Reading(report=SSH, hosts=hosts)


class Lingering(DemoSource):
    """Takes a moment of the time that it is given to end."""

    given = -1.0

    def close(self, wait_seconds: float = 0.0) -> None:
        self.given = wait_seconds
        began = time.monotonic()
        while time.monotonic() == began:
            pass


def test_all_sources_together_have_the_time_to_end_that_is_given() -> None:
    sources = [Lingering(hosts=1) for _ in range(3)]
    Collector(sources).close(30.0)
    first, second, third = (source.given for source in sources)
    assert 31 > first > second > third > 0
    Collector(sources).close()
    assert [source.given for source in sources] == [0.0, 0.0, 0.0]


def test_a_host_of_two_sources_is_one_with_what_each_knows() -> None:
    known = FleetDevice(index=0, uuid=clean("u"), xid=79, gpu_utilization_percent=10)
    fresh = FleetDevice(index=0, uuid=clean("u"), gpu_utilization_percent=90)
    far = host("gpu01.example.org", devices=(known,), age_seconds=20.0, group=clean("r01"))
    near = host("gpu01", devices=(fresh,), age_seconds=1.0, driver_version=clean("550"))
    [merged] = merge([prometheus(far), ssh(near)]).hosts
    assert (merged.name, merged.group, merged.driver_version) == ("gpu01.example.org", "r01", "550")
    assert (merged.age_seconds, merged.source) == (1.0, 1)
    [device] = merged.devices
    assert (device.gpu_utilization_percent, device.xid) == (90, 79)


def test_a_source_that_lost_a_host_tells_only_what_does_not_age() -> None:
    known = FleetDevice(
        index=0,
        uuid=clean("u"),
        name=clean("H100"),
        memory_total_bytes=80,
        tensor_active_percent=60.0,
        sm_clock_mhz=1980,
        xid=79,
        users=(clean("bob"),),
        job=clean("77"),
    )
    old = host(
        "gpu01",
        state="lost-contact",
        age_seconds=172800.0,
        group=clean("r01"),
        driver_version=clean("550"),
        expected_devices=8,
        cpu_percent=97.0,
        memory_used_bytes=900,
        memory_total_bytes=1000,
        devices=(known, FleetDevice(index=1)),
    )
    idle = FleetDevice(index=0, uuid=clean("u"), gpu_utilization_percent=0.0, idle_seconds=90000.0)
    [merged] = merge([prometheus(host("gpu01", devices=(idle,))), ssh(old)]).hosts
    assert merged == host(
        "gpu01",
        group=clean("r01"),
        driver_version=clean("550"),
        expected_devices=8,
        memory_total_bytes=1000,
        devices=(replace(idle, name=clean("H100"), memory_total_bytes=80),),
    )
    [empty] = merge([prometheus(host("gpu01")), ssh(old)]).hosts
    assert empty.devices == ()


def test_of_two_sources_that_lost_a_host_both_tell_what_they_last_knew() -> None:
    known = FleetDevice(index=0, uuid=clean("u"), users=(clean("bob"),), sm_clock_mhz=1980)
    old = host("gpu01", state="lost-contact", age_seconds=600.0, devices=(known,))
    [merged] = merge([prometheus(host("gpu01", "u", state="stale")), ssh(old)]).hosts
    assert (merged.state, merged.devices) == ("stale", (known,))


def test_where_ssh_fails_the_other_source_stands_and_the_reason_is_there() -> None:
    refused = host("gpu01", state="auth", age_seconds=None, message=clean("Permission denied"))
    [merged] = merge([prometheus(host("gpu01", "u")), ssh(refused)]).hosts
    assert merged.state == "ok"
    assert merged.message == "ssh: Permission denied"
    assert [device.uuid for device in merged.devices] == ["u"]


def test_one_name_in_two_clusters_is_two_hosts() -> None:
    first = prometheus(host("gpu01", "a", cluster="x"), host("gpu01", "b", cluster="y"))
    assert len(merge([first]).hosts) == 2
    merged = merge([first, ssh(host("gpu01", "b", age_seconds=0.5))]).hosts
    assert [(each.cluster, each.source) for each in merged] == [("x", 0), ("y", 1)]


def test_two_servers_with_one_name_and_other_gpus_are_two_hosts() -> None:
    other = Reading(
        report=FleetSource(kind="prometheus", name=clean("http://b")), hosts=(host("gpu01", "b"),)
    )
    merged = merge([prometheus(host("gpu01", "a")), other]).hosts
    assert [(each.cluster, each.devices[0].uuid) for each in merged] == [(None, "a"), ("b", "b")]
    same = merge([prometheus(host("gpu01", "a")), prometheus(host("gpu01", "a"))]).hosts
    assert len(same) == 1


def lost(index: int) -> FleetDevice:
    return FleetDevice(index=index, uuid=clean(f"u{index}"), state="lost")


@pytest.mark.parametrize(
    ("counted", "there", "expected"),
    [
        (3, ["ok", "ok", "ok"], 3),
        (4, ["ok", "ok", "ok", "lost"], 4),
        (8, ["ok", "ok", "ok", "lost"], 8),
        (2, ["ok", "ok", "ok", "lost"], 4),
        (None, ["ok", "ok", "ok", "lost"], 4),
    ],
)
def test_a_gpu_is_missed_unless_the_scheduler_counts_one_fewer(
    counted: int | None, there: list[str], expected: int
) -> None:
    slurm = Reading(
        report=replace(PROMETHEUS, kind="slurm"), hosts=(host("a", expected_devices=counted),)
    )
    ours = replace(host("a", "u0", "u1", "u2"), expected_devices=4)
    ours = replace(ours, devices=(*ours.devices, lost(3)))
    [merged] = merge([prometheus(ours), slurm]).hosts
    assert [each.state for each in merged.devices] == there
    assert merged.expected_devices == expected


def test_what_one_of_two_sources_misses_is_missed() -> None:
    far = replace(host("a", "u0", "u1"), age_seconds=20.0, expected_devices=3)
    near = replace(host("a", "u0", "u1"), expected_devices=2)
    [merged] = merge([prometheus(far), ssh(near)]).hosts
    assert merged.expected_devices == 3


def test_a_scheduler_annotates_the_hosts_that_are_shown() -> None:
    slurm = Reading(
        report=FleetSource(kind="slurm", name=clean("slurm")),
        hosts=(host("gpu01", drain_reason=clean("bad fan")), host("gpu02")),
        jobs=(FleetJob(id=clean("1")), FleetJob(id=clean("1"), user=clean("eve"))),
    )
    merged = merge([slurm, ssh(host("gpu01", "a"))])
    assert [(each.name, each.drain_reason) for each in merged.hosts] == [("gpu01", "bad fan")]
    assert [job.user for job in merged.jobs] == ["eve"]


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_host_with_gpus_that_the_scheduler_alone_knows_is_one_without_metrics(
    is_whole: bool,
) -> None:
    slurm = Reading(
        report=FleetSource(kind="slurm", name=clean("slurm")),
        hosts=(
            host("gpu01", expected_devices=2),
            host("gpu02", expected_devices=8),
            host("gpu03", expected_devices=8, drain_reason=clean("off")),
        ),
    )
    seen = prometheus(host("gpu01.lan", "a", "b"))
    seen = replace(seen, report=replace(PROMETHEUS, expected_hosts=1 if is_whole else None))
    merged = merge([seen, slurm])
    assert [each.name for each in merged.hosts] == ["gpu01.lan", "gpu02"][: 1 + is_whole]
    found = [each for each in Reducer().reduce(merged).findings if each.rule == "host-no-metrics"]
    assert [each.hosts for each in found] == [("gpu02",)][:is_whole]
    assert all("Slurm has it with 8 GPUs" in each.sentence for each in found)
    assert {each.held_seconds for each in found} <= {None}
    assert len(merge([ssh(host("gpu01", "a", "b")), slurm]).hosts) == 1


def test_the_instant_that_was_asked_for_is_that_of_the_whole() -> None:
    then = datetime(2026, 11, 20, tzinfo=timezone.utc)
    assert merge([ssh(), prometheus(at=then)]).taken_at == then


def test_it_is_settled_when_every_host_has_answered_or_failed() -> None:
    waiting = host("gpu02", state="connecting", age_seconds=None)
    assert not is_settled([ssh(host("gpu01", "a"), waiting)])
    assert has_answer([ssh(host("gpu01", "a"), waiting)])
    assert not has_answer([ssh(waiting)])
    assert is_settled([ssh(host("gpu01", "a"), host("gpu02", state="down"))])
    assert not is_settled([prometheus(host("gpu01", "a"), is_whole=False)])
    failed = Reading(report=FleetSource(kind="prometheus", name=clean("x"), state="failed"))
    assert has_answer([failed])
    assert is_settled([failed])


def test_a_filter_keeps_the_sources_and_what_the_gpus_left_concern() -> None:
    kept, other = (
        FleetDevice(
            index=0,
            uuid=clean(uuid),
            name=clean("NVIDIA H100"),
            users=(clean("eve"),),
            status="held-idle",
            idle_seconds=7200.0,
        )
        for uuid in "ab"
    )
    snapshot = merge([ssh(host("gpu01", devices=(kept,)), host("gpu02", devices=(other,)))])
    left = narrowed(
        snapshot, lambda _host, gpu: gpu is not None and gpu.uuid == "a", Prices({"h100": 2.0})
    )
    assert [each.name for each in left.hosts] == ["gpu01"]
    (user,) = left.users
    assert (user.name, user.devices, user.held_idle, user.idle_cost) == ("eve", 1, 1, 4.0)
    assert left.sources == snapshot.sources
