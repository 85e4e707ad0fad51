"""Schedulers number their jobs alike: those of two clusters are two, whatever shows them."""

from typing import Any

import pytest
from msgspec import Raw, json
from msgspec.structs import replace

from gpudash.fleet.collector import merge, narrowed
from gpudash.fleet.events import events
from gpudash.fleet.prometheus.known import Row
from gpudash.fleet.prometheus.picture import Picture
from gpudash.fleet.reduce import Reducer
from gpudash.fleet.source import Reading
from gpudash.fleet.users import users_of
from gpudash.fleet.where import GRAMMAR_OF_EVENTS, passing, where
from gpudash.model.fleet import FleetHost, FleetJob, FleetSnapshot, FleetSource, decode, encode
from gpudash.model.text import SafeText, clean
from tests.fleet.many import device, fleet

PROMETHEUS = FleetSource(kind="prometheus", name=SafeText("http://a"))
SLURM = FleetSource(kind="slurm", name=SafeText("slurm"))


def node(
    cluster: str | None, name: str, *statuses: str, job: str | None = "123", **more: Any
) -> FleetHost:
    """A host of a cluster whose GPUs are all of one job."""
    own = {"job": job, "users": (f"user-{cluster}",), **more}
    devices = tuple(
        device(n, word, uuid=f"GPU-{cluster}-{name}-{n}", **own)
        for n, word in enumerate(statuses or ("busy",) * 2)
    )
    return FleetHost(
        name=clean(name),
        cluster=None if cluster is None else clean(cluster),
        age_seconds=1.0,
        devices=devices,
    )


def reduced(*hosts: FleetHost, jobs: tuple[FleetJob, ...] = ()) -> FleetSnapshot:
    return Reducer().reduce(fleet(hosts, users=(), jobs=jobs, findings=()))


def keys(snapshot: FleetSnapshot) -> list[tuple[str | None, str, int]]:
    return sorted((each.cluster or "", each.id, each.devices) for each in snapshot.jobs)


TWO = node("east", "n1"), node("east", "n2"), node("west", "n1", "held-idle", "held-idle")


def test_one_number_in_two_clusters_is_two_jobs_with_what_each_has() -> None:
    found = reduced(*TWO)
    assert keys(found) == [("east", "123", 4), ("west", "123", 2)]
    east, west = found.jobs
    assert (east.key, east.hosts, east.busy, east.user) == (
        ("east", "123"),
        ("n1", "n2"),
        4,
        "user-east",
    )
    assert (west.hosts, west.busy, west.user) == (("n1",), 0, "user-west")
    assert decode(encode(found)).jobs == found.jobs


def test_a_job_without_a_cluster_is_that_of_its_hosts_whatever_theirs_is() -> None:
    """So it is in an older recording."""
    job = FleetJob(id=SafeText("123"), name=SafeText("train"), devices=4)
    found = reduced(*TWO[:2], jobs=(job,))
    assert [(each.cluster, each.name, each.busy) for each in found.jobs] == [(None, "train", 4)]
    assert narrowed(found, where("job:123"), lambda _: None).jobs == found.jobs


def test_a_prometheus_with_two_clusters_has_the_jobs_of_each() -> None:
    seen = Picture()
    seen.inventory.set_names(["DCGM_FI_DEV_GPU_UTIL"])
    rows = [
        series(cluster=cluster, gpu="0", Hostname=name, UUID=f"GPU-{cluster}{name}", hpc_job="123")
        for cluster, name in (("east", "n1"), ("east", "n2"), ("west", "n1"))
    ]
    seen.inventory.learn(rows)
    seen.take_main(rows, 10.0, is_partial=False)
    assert [(each.cluster, each.hosts) for each in seen.jobs()] == [
        ("east", ("n1", "n2")),
        ("west", ("n1",)),
    ]


def series(**labels: str) -> Row:
    metric = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "instance": labels["Hostname"], **labels}
    return Row(Raw(json.encode(metric)), (10.0, "50"))


def test_a_filter_finds_both_and_leaves_one_with_its_cluster() -> None:
    found = reduced(*TWO)
    both = narrowed(found, where("job:123"), lambda _: None)
    assert [each.key for each in both.jobs] == [("east", "123"), ("west", "123")]
    one = narrowed(found, where("job:123 cluster:west"), lambda _: None)
    assert [each.key for each in one.jobs] == [("west", "123")]


def test_a_user_has_a_job_in_each_cluster() -> None:
    hosts = [replace(h, devices=tuple(replace(d, users=("bob",)) for d in h.devices)) for h in TWO]
    found = reduced(*hosts)
    assert [(each.name, each.jobs) for each in found.users] == [("bob", 2)]
    rows = [(each, each.devices) for each in found.hosts]
    assert users_of(rows, found.jobs, lambda _: None)[0].jobs == 2


def test_a_finding_about_a_job_names_its_cluster_where_another_has_that_number() -> None:
    slow = {"sm_clock_mhz": 1980}
    east = [node("east", "n1", *["busy"] * 5, **slow), node("east", "n3", job="9")]
    east[0] = replace(
        east[0], devices=(*east[0].devices[:4], replace(east[0].devices[4], sm_clock_mhz=900))
    )
    west = node("west", "n1", *["busy"] * 4, sm_clock_mhz=900)
    # Together they would be of two speeds.
    (found,) = (e for e in reduced(*east, west).findings if e.rule == "straggler")
    assert "job 123 in east" in found.sentence
    assert found.hosts == ("east/n1",)
    (alone,) = (e for e in reduced(*east).findings if e.rule == "straggler")
    assert alone.sentence.endswith("of job 123")


def test_what_ends_a_job_is_to_be_run_in_its_cluster() -> None:
    idle = node("west", "n1", "held-idle", "held-idle", memory_used_bytes=0)
    (unused,) = (e for e in reduced(TWO[0], idle).findings if e.rule == "allocated-unused")
    assert "in west: scancel 123" in unused.advice
    assert "2 of 2 GPUs of job 123 in west" in unused.sentence


def at(seconds: float, *hosts: FleetHost, **more: Any) -> FleetSnapshot:
    return fleet(hosts, seconds=seconds, **{"jobs": (), "users": (), "findings": (), **more})


def test_events_of_a_job_are_of_its_cluster() -> None:
    free = [node(e.cluster, e.name, "free", "free", job=None, users=()) for e in TWO]
    began = [*events((at(0, *free), at(10, *TWO[:2], free[2])))]
    assert [(e.kind, e.cluster, e.job) for e in began] == [("job-began", "east", "123")]
    both = events((at(0, *free), at(10, *TWO), at(20, *free[:2], TWO[2])))
    assert [(e.kind, e.cluster, e.what) for e in both] == [
        ("job-began", "east", "4 GPUs on n1, n2"),
        ("job-began", "west", "2 GPUs"),
        ("job-ended", "east", "4 GPUs on n1, n2"),
    ]


def test_a_job_goes_on_while_a_host_of_that_name_is_down_elsewhere() -> None:
    jobs = tuple(
        FleetJob(id=SafeText("123"), cluster=clean(c), hosts=hosts, devices=2, state="RUNNING")
        for c, hosts in (("east", ("n1", "n2")), ("west", ("n1",)))
    )
    down = replace(TWO[2], state="down", devices=())
    ended = events((at(0, *TWO, jobs=jobs), at(10, *TWO[:2], down, jobs=jobs[1:])))
    assert [(e.kind, e.cluster) for e in ended if e.is_of_job] == []
    free = [node("east", name, "free", "free", job=None, users=()) for name in ("n1", "n2")]
    ended = events((at(0, *TWO, jobs=jobs), at(10, *free, down, jobs=jobs[1:])))
    assert [(e.kind, e.cluster) for e in ended if e.is_of_job] == [("job-ended", "east")]


def test_events_of_a_job_pass_a_filter_as_the_gpus_of_its_cluster() -> None:
    free = [node(e.cluster, e.name, "free", "free", job=None, users=()) for e in TWO]
    found = [*events((at(0, *free), at(10, *TWO)))]
    wanted = GRAMMAR_OF_EVENTS.parse("job:123 user:user-east")
    assert [each.cluster for each in passing(found, TWO, wanted)] == ["east"]


def slurm(*hosts: str, job: FleetJob, users: str = "carol") -> Reading:
    given = device(0, "unknown", job=job.id, users=(users,), uuid=None)
    nodes = tuple(FleetHost(name=clean(name), devices=(given,)) for name in hosts)
    return Reading(report=SLURM, hosts=nodes, jobs=(job,))


@pytest.mark.parametrize("names", [("n1", "n2"), ("n1",)])
def test_a_slurm_knows_the_jobs_of_the_cluster_that_has_its_nodes(names: tuple[str, ...]) -> None:
    """Where both have nodes of these names, by the job that they have there."""
    job = FleetJob(id=SafeText("123"), user=SafeText("carol"), hosts=tuple(map(clean, names)))
    far = Reading(
        report=PROMETHEUS,
        hosts=(*TWO[:2], node("west", "n1", job="5")),
        jobs=(
            FleetJob(id=SafeText("123"), cluster=SafeText("east"), devices=4),
            FleetJob(id=SafeText("5"), cluster=SafeText("west"), devices=2),
        ),
    )
    whole = merge([far, slurm(*names, job=job)])
    assert {(e.cluster, e.id): e.user for e in whole.jobs} == {
        ("east", "123"): "carol",
        ("west", "5"): None,
    }
    (west,) = (each for each in whole.hosts if each.cluster == "west")
    assert {each.job for each in west.devices} == {"5"}


def test_nothing_is_taken_for_that_of_a_slurm_whose_nodes_may_be_those_of_two_clusters() -> None:
    free = [node(c, "n1", "free", job=None, users=()) for c in ("east", "west")]
    job = FleetJob(id=SafeText("123"), user=SafeText("carol"), hosts=(SafeText("n1"),))
    whole = merge([Reading(report=PROMETHEUS, hosts=tuple(free)), slurm("n1", job=job)])
    assert {each.job for host in whole.hosts for each in host.devices} == {None}
    assert [(each.cluster, each.id) for each in whole.jobs] == [(None, "123")]


def test_a_server_that_has_a_host_of_another_is_another_cluster_with_all_of_its_jobs() -> None:
    def reading(name: str, *hosts: FleetHost) -> Reading:
        jobs = FleetJob(id=SafeText("123"), hosts=tuple(each.name for each in hosts), devices=2)
        return Reading(report=replace(PROMETHEUS, name=SafeText(name)), hosts=hosts, jobs=(jobs,))

    other = [replace(node("b", name), cluster=None) for name in ("n1", "n9")]
    whole = merge([reading("http://a", node(None, "n1")), reading("http://b", *other)])
    assert sorted((each.cluster or "", each.name) for each in whole.hosts) == [
        ("", "n1"),
        ("b", "n1"),
        ("b", "n9"),
    ]
    assert [(each.cluster, each.hosts) for each in whole.jobs] == [
        (None, ("n1",)),
        ("b", ("n1", "n9")),
    ]
