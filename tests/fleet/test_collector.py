import time
from datetime import datetime, timedelta, timezone

import pytest
from msgspec.structs import replace

from gpudash.fleet.collector import Collector, has_answer, is_settled, merge, narrowed
from gpudash.fleet.demo import DemoSource
from gpudash.fleet.reduce import Reducer
from gpudash.fleet.source import Reading, Source
from gpudash.fleet.users import Prices
from gpudash.model.fleet import (
    ChartRequest,
    Event,
    FleetChart,
    FleetDevice,
    FleetHost,
    FleetJob,
    FleetLine,
    FleetRequest,
    FleetSource,
)
from gpudash.model.text import clean

PROMETHEUS = FleetSource(kind="prometheus", name=clean("http://a"))
THEN = datetime(2026, 11, 20, tzinfo=timezone.utc)
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


FAR = "gpu01.cluster.example", "10.0.0.7", "node-b"
BOARDS = tuple(f"GPU-{n}" for n in range(8))


@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize("there", [8, 7])
def test_a_host_that_two_sources_call_otherwise_is_one_by_its_gpus(far: str, there: int) -> None:
    """Its name is that of the first source, and so it is in jobs, events and charts."""
    job = FleetJob(
        id=clean("7"), cluster=clean("east"), hosts=(clean(far), clean("other")), devices=8
    )
    event = Event(at=THEN, kind="host-up", host=clean(far), cluster=clean("east"), what=clean("x"))
    line = FleetLine(host=clean(far), index=0)
    chart = FleetChart(
        metric="power_usage_mw",
        span_seconds=60,
        cluster=clean("east"),
        hosts=(clean(far),),
        end=THEN,
        step_seconds=1,
        lines=(line,),
    )
    theirs = prometheus(
        host(far, *BOARDS, cluster="east", age_seconds=20.0, group=clean("r1")),
        host("other", "GPU-x", cluster="east"),
        jobs=(job,),
        events=(event,),
        charts=(chart,),
    )
    whole = merge([ssh(host("typed", *BOARDS[:there])), theirs])
    other, one = whole.hosts
    assert (other.name, one.key, one.group) == ("other", ("east", "typed"), "r1")
    assert (one.source, one.age_seconds, len(one.devices)) == (0, 1.0, there)
    assert [each.hosts for each in whole.jobs] == [("typed", "other")]
    assert [(each.cluster, each.host) for each in whole.events or ()] == [("east", "typed")]
    [shown] = whole.charts
    assert (shown.cluster, shown.hosts, shown.lines[0].host) == ("east", ("typed",), "typed")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        # Hosts of which no GPU is known.
        ([host("a")], [host("b")]),
        ([host("a", state="connecting")], [host("b", *BOARDS)]),
        # A container that has some of the GPUs, and two that share one.
        ([host("pod-a", *BOARDS[:4])], [host("b", *BOARDS)]),
        ([host("pod-a", "GPU-0"), host("pod-b", "GPU-0")], [host("b", "GPU-0")]),
        # A GPU that was moved.
        ([host("a", *BOARDS[:1], "GPU-x", "GPU-y")], [host("b", *BOARDS)]),
        # Machines that were cloned with their UUIDs.
        ([host("a", "GPU-0", cluster="x")], [host("b", "GPU-0", cluster="y")]),
        ([host("a", "GPU-0")], [host("b", "GPU-0"), host("c", "GPU-0")]),
    ],
)
def test_hosts_whose_gpus_do_not_prove_that_they_are_one_are_several(
    ours: list[FleetHost], theirs: list[FleetHost]
) -> None:
    merged = merge([ssh(*ours), prometheus(*theirs)]).hosts
    assert {each.name for each in merged} == {each.name for each in (*ours, *theirs)}


@pytest.mark.parametrize("other", ["a", "b"])
def test_instances_of_equal_names_do_not_make_two_hosts_one(other: str) -> None:
    def divided(name: str, board: str) -> FleetHost:
        instance = FleetDevice(index=1, uuid=clean("MIG-1"), parent_uuid=clean(board))
        return host(name, devices=(FleetDevice(index=0, uuid=clean(board)), instance))

    assert len(merge([ssh(divided("a", "GPU-a")), prometheus(divided(other, "GPU-b"))]).hosts) == 2


class Asked(Source):
    """Notes what it is asked for."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.charts: tuple[ChartRequest, ...] = ()

    def ask(self, request: FleetRequest) -> None:
        self.charts = request.charts

    def read(self) -> Reading:
        return self.reading


def test_each_source_is_asked_for_the_chart_of_a_host_by_its_own_name() -> None:
    near = Asked(ssh(host("typed", *BOARDS)))
    far = Asked(prometheus(host("node-b", *BOARDS, cluster="east"), host("c", "GPU-x")))
    chart = ChartRequest(metric="power_usage_mw", cluster="east", hosts=("typed",))
    collector = Collector([near, far])
    collector.ask(FleetRequest(charts=(chart,)))
    assert [each.hosts for each in far.charts] == [("node-b",)]
    assert [(each.cluster, each.hosts) for each in near.charts] == [(None, ("typed",))]


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


def test_what_two_servers_have_seen_happen_is_one_event() -> None:
    at = datetime(2026, 11, 20, tzinfo=timezone.utc)
    lost = Event(at=at, kind="gpu-lost", host=clean("a"), gpu=clean("0"), what=clean("x"))
    later = replace(lost, at=at + timedelta(seconds=45))
    again = replace(lost, at=at + timedelta(hours=1))
    readings = [replace(prometheus(), events=e) for e in ((lost,), (later, again))]
    assert merge(readings).events == (lost, again)


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


def test_a_scheduler_that_goes_by_index_knows_nothing_of_a_lost_gpu_that_had_it_before() -> None:
    known = (FleetDevice(index=1, job=clean("7"), users=(clean("eve"),)),)
    report = FleetSource(kind="slurm", name=clean("slurm"))
    slurm = Reading(report=report, hosts=(replace(host("gpu01"), devices=known),))
    there = host("gpu01", "a", "b")
    gone = FleetDevice(index=1, uuid=clean("c"), state="lost")
    for gpus, jobs in (((*there.devices, gone), [None, "7", None]), ((gone,), ["7"])):
        [merged] = merge([slurm, prometheus(replace(there, devices=gpus))]).hosts
        assert [each.job for each in merged.devices] == jobs


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
    hosts = ["gpu01.lan", "gpu02", "gpu03"][: 3 if is_whole else 1]
    assert [each.name for each in merged.hosts] == hosts
    assert [each.devices for each in merged.hosts[1:]] == [(), ()][: 2 * is_whole]
    findings = Reducer().reduce(merged).findings
    # That it is drained is known, so that nothing is shown of it is no warning.
    drained = [each for each in findings if each.rule == "hosts-drained"]
    assert [(each.hosts, each.level) for each in drained] == [(("gpu03",), "info")][:is_whole]
    found = [each for each in findings if each.rule == "host-no-metrics"]
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
