"""What is an event from one snapshot to the next, and what is none."""

import json
import os
import pty
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gpudash.cli.arguments import parse
from gpudash.fleet.columns import EVENT_COLUMNS
from gpudash.fleet.event_log import MAX_KEPT, Log
from gpudash.fleet.events import EXCHANGED, events
from gpudash.fleet.reduce import Reducer
from gpudash.model import fleet as document
from gpudash.model import wire
from gpudash.model.errors import UsageError
from gpudash.model.fleet import Event, FleetHost, FleetJob, FleetSnapshot, FleetSource
from gpudash.model.process import Lease
from gpudash.model.text import SafeText
from tests.factories import make_device, make_host, make_snapshot
from tests.fleet.many import INSTANT, device, fleet, host


def at(seconds: float, *hosts: FleetHost, **fields: object) -> FleetSnapshot:
    """A snapshot without any job but those of its devices."""
    values = {"jobs": (), **fields}
    return fleet(hosts, seconds=seconds, **values)


def told(*snapshots: FleetSnapshot) -> list[tuple[str, str | None, str | None]]:
    return [
        (each.kind, each.host, each.gpu or (each.job if each.is_of_job else None))
        for each in events(snapshots)
    ]


def lost(index: int, job: str | None = None) -> object:
    return device(index, "lost", state="lost", job=job)


def test_the_first_snapshot_is_no_news_whatever_it_shows() -> None:
    assert told(at(0, host(1, devices=(lost(0),)), host(2, state="down"))) == []


def test_nothing_has_changed_since_an_instant_at_which_nothing_was_known() -> None:
    failed = FleetSource(kind="prometheus", name=SafeText("http://a"), state="failed")
    before = at(0, sources=(failed,))
    assert told(before, at(10, host(1), host(2, state="down"))) == []
    assert told(before, at(10, host(1)), at(20, host(1), host(2))) == [("host-up", "gpu0002", None)]


def test_events_sorted_by_what_they_are_begin_with_what_broke() -> None:
    kinds = ("throttled", "xid", "job-began", "host-up", "gpu-lost", "gpu-returned", "host-down")
    (column,) = (each for each in EVENT_COLUMNS if each.key == "event")
    found = [Event(at=INSTANT, kind=kind, what=SafeText("x")) for kind in kinds]
    assert [e.kind for e in sorted(found, key=column.sort_key)][:3] == [
        "gpu-lost",
        "host-down",
        "xid",
    ]


def test_a_job_on_mig_instances_of_one_gpu_has_one_gpu() -> None:
    idle = host(1, devices=(device(0, "free"),))
    instances = [device(n, parent_uuid="GPU-0", uuid=f"MIG-{n}", job="77") for n in range(2)]
    divided = host(1, devices=(device(0, "divided", job="77"), *instances))
    (began,) = events((at(0, idle), at(10, divided)))
    assert (began.job, began.what) == ("77", "1 GPU")


@pytest.mark.parametrize("shown", [True, False], ids=["shown as lost", "left out"])
def test_a_gpu_that_is_lost_names_the_jobs_of_all_of_its_instances(*, shown: bool) -> None:
    instances = [device(n, parent_uuid="GPU-0", uuid=f"MIG-{n}", job=f"7{n}") for n in range(3)]
    other = device(1, job="70")
    divided = host(1, devices=(device(0, "divided", job=None), *instances, other))
    left = host(1, devices=(lost(0), other) if shown else (other,))
    (gone,) = events((at(0, divided), at(10, left), at(20, left)))
    assert (gone.kind, gone.job) == ("gpu-lost", "70, 71 +1")
    later = [*events((at(0, divided), at(10, left), at(7000, left)))][1:]
    assert [(each.kind, each.job) for each in later] == [("job-ended", "71"), ("job-ended", "72")]
    assert {each.what for each in later} == {"1 GPU, ended or lost with its GPUs"}


def test_a_gpu_is_lost_whether_it_is_shown_so_or_left_out_and_returns() -> None:
    there, shown = host(1), host(1, devices=(lost(0), *host(1).devices[1:]))
    left_out = host(1, devices=host(1).devices[:7])
    assert told(at(0, there), at(10, shown), at(20, shown), at(30, there)) == [
        ("gpu-lost", "gpu0001", "0"),
        ("gpu-returned", "gpu0001", "0"),
    ]
    assert told(at(0, there), at(10, left_out), at(15, left_out), at(20, there)) == [
        ("gpu-lost", "gpu0001", "7"),
        ("gpu-returned", "gpu0001", "7"),
    ]


def with_gpus(*cards: int, lost: int | None = None, missed: bool = True) -> FleetHost:
    """A host whose GPUs are numbered in order; one that is lost keeps its index."""
    left = [card for card in cards if card != lost]
    found = [device(index, uuid=f"GPU-{card}", job=None) for index, card in enumerate(left)]
    if lost is not None and missed:
        gone = device(lost, "lost", uuid=f"GPU-{lost}", state="lost", job=None)
        found.append(replace(gone, age_seconds=5))
    return host(1, devices=tuple(found))


@pytest.mark.parametrize("missed", [True, False], ids=["shown as lost", "left out"])
def test_gpus_that_get_other_indices_are_neither_lost_nor_back(*, missed: bool) -> None:
    down = host(1, state="down", devices=())
    after = with_gpus(0, 1, 2, 3, lost=1, missed=missed)
    found = [*events((at(0, with_gpus(0, 1, 2, 3)), at(10, after), at(20, down), at(30, after)))]
    assert sorted((each.kind, each.gpu, each.uuid) for each in found) == [
        ("gpu-lost", "1", "GPU-1"),
        ("host-down", None, None),
        ("host-up", None, None),
        ("renumbered", None, None),
    ]


def test_a_gpu_is_back_at_whatever_index_and_an_event_has_the_index_of_then() -> None:
    lost, back = with_gpus(0, 1, 2, lost=1), with_gpus(0, 2, 1)
    (*_, returned, renumbered) = events((at(0, with_gpus(0, 1, 2)), at(10, lost), at(20, back)))
    assert (returned.kind, returned.gpu, returned.uuid) == ("gpu-returned", "2", "GPU-1")
    assert (renumbered.kind, renumbered.gpu) == ("renumbered", None)
    assert renumbered.what == "its GPUs have other indices: 2 was 1"


@pytest.mark.parametrize("missed", [True, False], ids=["shown as lost", "left out"])
def test_a_gpu_in_the_place_of_a_lost_one_is_exchanged_for_it(*, missed: bool) -> None:
    lost = with_gpus(0, 1, 2, lost=1, missed=missed)
    (*_, event) = events((at(0, with_gpus(0, 1, 2)), at(10, lost), at(20, with_gpus(0, 7, 2))))
    assert (event.kind, event.gpu, event.uuid, event.what) == (
        "gpu-returned", "1", "GPU-1", EXCHANGED
    )  # fmt: skip
    (event,) = events((at(0, with_gpus(0, 1, 2)), at(10, with_gpus(0, 7, 2))))
    assert (event.uuid, event.what) == ("GPU-1", EXCHANGED)


def test_a_gpu_whose_uuid_is_known_later_is_no_other() -> None:
    first = [replace(each, uuid=None) for each in host(1).devices]
    assert told(at(0, host(1, devices=tuple(first))), at(10, host(1))) == []


def test_a_host_goes_down_and_up_and_its_job_goes_on_meanwhile() -> None:
    down = host(1, state="down", message="No route to host", devices=())
    assert told(at(0, host(1)), at(10, down), at(20, down), at(30, host(1))) == [
        ("host-down", "gpu0001", None),
        ("host-up", "gpu0001", None),
    ]
    (event, *_) = events((at(0, host(1)), at(10, down)))
    assert event.what == "cannot be reached: No route to host"
    idle = host(1, *["free"] * 8)
    assert told(at(0, host(1)), at(10, down), at(20, idle))[-1] == ("job-ended", "gpu0001", "4242")


def test_a_host_that_goes_down_names_the_jobs_that_were_on_it() -> None:
    down = host(1, state="down", devices=())
    named = FleetJob(id=SafeText("777"), state=SafeText("RUNNING"), hosts=(SafeText("gpu0001"),))
    (event, *_) = events((at(0, host(1), jobs=(named,)), at(10, down)))
    assert (event.kind, event.job) == ("host-down", "4242, 777")
    (event, *_) = events((at(0, host(1, "free"), host(2)), at(10, host(2))))
    assert (event.kind, event.job) == ("host-down", None)
    log = Log()
    log.since = INSTANT
    for snapshot in (at(0, host(1)), at(10, down)):
        log.watch(snapshot)
    # What a source says of the same is no second event, though it knows no job.
    (found,) = log.shown([replace(event, host=host(1).name, at=INSTANT)]) or ()
    assert found.job is None


def test_a_job_goes_on_while_all_of_its_gpus_are_lost() -> None:
    alone = host(1, devices=(device(0), device(1, "free")))
    gone = host(1, devices=(lost(0), device(1, "free")))
    free = host(1, "free", "free")
    assert [each[0] for each in told(at(0, alone), at(10, gone), at(20, alone))] == [
        "gpu-lost",
        "gpu-returned",
    ]
    assert told(at(0, alone), at(10, gone), at(20, free))[-1] == ("job-ended", "gpu0001", "4242")
    pair, half = host(1, "busy", "busy"), host(1, devices=(lost(0), device(1)))
    assert [each[0] for each in told(at(0, pair), at(10, half), at(20, gone))] == [
        "gpu-lost",
        "job-ended",
    ]
    job = FleetJob(id=SafeText("4242"), state=SafeText("RUNNING"), hosts=(SafeText("gpu0001"),))
    assert [each[0] for each in told(at(0, alone, jobs=(job,)), at(10, gone))] == [
        "gpu-lost",
        "job-ended",
    ]


@pytest.mark.parametrize("is_host", [True, False])
def test_a_job_that_never_comes_back_has_ended_when_it_was_lost(is_host: bool) -> None:
    down = host(1, state="down", devices=())
    gone = down if is_host else host(1, devices=(lost(0), device(1, "free")))
    there = host(1, devices=(device(0), device(1, "free")))
    soon, late = 60.0, 3700.0
    assert "job-ended" not in [
        kind for kind, _, _ in told(at(0, there), at(9, gone), at(soon, gone))
    ]
    missed = [at(0, there), at(9, gone), at(soon, gone), at(late, gone), at(2 * late, gone)]
    (event,) = (each for each in events(missed) if each.kind == "job-ended")
    assert (event.at, event.within_seconds) == (INSTANT + timedelta(seconds=9), 17.0)
    assert event.what == f"1 GPU, ended or lost with its {'host' if is_host else 'GPUs'}"
    for back in (there, host(1, "free", "free")):
        kinds = [kind for kind, _, _ in told(*missed, at(3 * late, back))]
        assert [kind for kind in kinds if kind.startswith("job")] == ["job-ended"]


@pytest.mark.parametrize("is_host", [True, False])
def test_a_job_that_is_known_by_what_is_gone_has_ended_when_that_went(is_host: bool) -> None:
    """As every source shows it: what is gone keeps the job that it had."""
    there = host(1, devices=(device(0), device(1)))
    gone = tuple(lost(each, job="4242") for each in (0, 1))
    first = replace(there, devices=(gone[0], device(1)))
    second = replace(there, state="down") if is_host else replace(there, devices=gone)
    seen, reducer = zip((0, 9, 20, 3800), (there, first, second, second), strict=True), Reducer()
    found = [*events(reducer.reduce(at(n, each, jobs=())) for n, each in seen)]
    (event,) = (each for each in found if each.is_of_job)
    assert (event.at, event.kind) == (INSTANT + timedelta(seconds=20), "job-ended")
    assert event.what == f"2 GPUs, ended or lost with its {'host' if is_host else 'GPUs'}"


def test_a_job_that_had_a_host_that_is_down_ends_with_those_that_answer() -> None:
    both, down, free = (host(1), host(2)), host(2, state="down"), host(1, *["free"] * 8)
    seen, reducer = ((0, both), (9, (host(1), down)), (20, (free, down))), Reducer()
    (event,) = (
        each
        for each in events(reducer.reduce(at(n, *some, jobs=())) for n, some in seen)
        if each.is_of_job
    )
    assert (event.at, event.host) == (INSTANT + timedelta(seconds=20), "gpu0001")


def test_a_job_ends_with_a_host_that_is_not_there_any_more() -> None:
    found = events((at(0, host(1), host(2, "free")), at(10, host(2, "free"))))
    (event,) = (each for each in found if each.kind == "job-ended")
    assert event.what == "8 GPUs, ended or lost with its host"


def test_what_is_only_old_or_still_being_asked_is_no_event() -> None:
    stale = host(1, state="stale", devices=())
    asking = host(2, state="connecting", devices=())
    assert told(at(0, host(1), asking), at(5, stale, asking), at(9, host(1), host(2))) == []


def test_a_host_of_which_nothing_was_known_is_new_and_one_that_is_gone_is_missed() -> None:
    assert told(at(0, host(1)), at(10, host(1), host(2))) == [("host-up", "gpu0002", None)]
    assert told(at(0, host(1), host(2)), at(10, host(1))) == [("host-down", "gpu0002", None)]


def test_a_host_that_was_still_being_asked_at_first_is_missed_and_comes_back() -> None:
    asking, others = host(2, state="connecting", devices=()), host(1)
    assert told(
        at(0, others, asking), at(5, others, host(2)), at(9, others), at(12, others, host(2))
    ) == [("host-down", "gpu0002", None), ("host-up", "gpu0002", None)]


@pytest.mark.parametrize("state", ["connecting", "down", None])
def test_a_host_that_has_another_name_now_is_neither_gone_nor_new(state: str | None) -> None:
    """One source may know it before another answers; its job and its GPUs go on."""
    gpus = device(0, uuid="GPU-a"), device(1, uuid="GPU-b")
    first = host(1, name="far.example", devices=gpus)
    last = host(1, name="near", devices=(gpus[0], replace(gpus[1], status="lost", state="lost")))
    waiting = () if state is None else (host(1, name="near", state=state, devices=()),)
    found = told(at(0, first, *waiting, host(2)), at(10, last, host(2)))
    up = [("host-up", "near", None)] if state == "down" else []
    assert found == [*up, ("gpu-lost", "near", "1")]
    assert told(at(0, first, host(2)), at(10, host(2)))[0] == ("host-down", "far.example", None)


def test_hosts_that_a_failing_source_leaves_out_are_not_gone() -> None:
    source = at(0).sources[0]
    failed = at(10, sources=(replace(source, state="failed"),))
    warned = at(20, sources=(replace(source, warnings=(SafeText("partial"),)),))
    assert told(at(0, host(1)), failed, warned, at(30, host(1))) == []


def test_an_xid_is_one_event_however_long_it_stays() -> None:
    broken = host(1, devices=(device(0, xid=79, xid_seconds=0.0), *host(1).devices[1:]))
    found = [*events((at(0, host(1)), at(10, broken), at(20, broken)))]
    assert [(each.kind, each.gpu, each.xid, each.job) for each in found] == [
        ("xid", "0", 79, "4242")
    ]
    old = replace(broken, devices=(device(0, xid=79), *host(1).devices[1:]))
    # When it was is not known: it may have been before all that was seen.
    assert [*events((at(0, host(1)), at(10, old)))] == []
    gone = host(1, devices=(lost(0), *host(1).devices[1:]))
    assert told(at(0, host(1)), at(10, broken), at(20, gone), at(30, broken)) == [
        ("xid", "gpu0001", "0"),
        ("gpu-lost", "gpu0001", "0"),
        ("gpu-returned", "gpu0001", "0"),
    ]


def test_throttling_begins_and_ends() -> None:
    hot = host(1, "hot", *["busy"] * 7)
    assert [each[0] for each in told(at(0, host(1)), at(10, hot), at(20, host(1)))] == [
        "throttled",
        "unthrottled",
    ]
    known = replace(hot, slow_seconds={"GPU-0": 4.0})
    (event,) = events((at(0, host(1)), at(10, known)))
    assert event.at == INSTANT + timedelta(seconds=6)


def test_a_host_is_drained_and_no_more_as_its_scheduler_says() -> None:
    free, drained = host(1), host(1, drain_reason=SafeText("bad fan (root)"))

    def slurm(*known: FleetHost, **fields: Any) -> FleetSnapshot:
        source = FleetSource(kind="slurm", name=SafeText("scontrol"), answering_hosts=1)
        return replace(at(next(seconds), *known), sources=(replace(source, **fields),))

    seconds = count(0, 60)
    seen = slurm(free), slurm(drained), slurm(free, state="failed"), slurm(drained), slurm(free)
    assert [(each.kind, each.what) for each in events(seen)] == [
        ("drained", "bad fan (root)"),
        ("undrained", "may have jobs again"),
    ]
    # Of the past a scheduler tells nothing.
    assert [*events((slurm(free, answering_hosts=0), slurm(drained)))] == []


def test_jobs_of_the_scheduler_begin_once_they_run() -> None:
    free = host(1, *["free"] * 8)
    job = FleetJob(id=SafeText("7"), state=SafeText("PENDING"), user=SafeText("eve"), devices=2)
    running = replace(job, state=SafeText("RUNNING"), hosts=(SafeText("gpu0001"),))
    found = [*events(at(n, free, jobs=jobs) for n, jobs in enumerate([(job,), (running,), ()]))]
    assert [(each.kind, each.user, each.what) for each in found] == [
        ("job-began", "eve", "2 GPUs"),
        ("job-ended", "eve", "2 GPUs"),
    ]


def test_what_lasts_for_a_known_time_began_before_it_was_seen() -> None:
    gone = replace(device(0, state="lost", job=None), age_seconds=300.0)
    long_gone = replace(gone, age_seconds=9000.0)
    for shown, began in ((gone, 3300), (long_gone, 0)):
        before = at(0, host(1, devices=(device(0),)))
        found = [*events((before, at(3600, host(1, devices=(shown,)))))]
        assert [(e.at, e.within_seconds) for e in found if e.kind == "gpu-lost"] == [
            (INSTANT + timedelta(seconds=began), None)
        ]


def test_what_broke_is_kept_beside_jobs_by_the_thousand() -> None:
    log = Log()
    log.since = INSTANT
    job = Event(at=INSTANT + timedelta(hours=1), kind="job-began", what=SafeText("1 GPU"))
    jobs = [replace(job, job=SafeText(str(number))) for number in range(MAX_KEPT + 9)]
    shown = log.shown([replace(job, at=INSTANT, kind="gpu-lost"), *jobs]) or ()
    assert [shown[0].kind, shown[1].job, shown[-1].job] == ["gpu-lost", "10", str(MAX_KEPT + 8)]
    assert len(shown) == MAX_KEPT > 10_000


@pytest.mark.parametrize(
    ("seconds", "age", "of_source", "within", "text"),
    [
        (5, 0.0, None, 5.0, "11-23 02:14:05"),
        (5, 30.0, None, 35.0, "11-23 02:13-02:14"),
        (55, 0.0, None, 55.0, "11-23 02:14"),
        (3600, 0.0, None, 3600.0, "11-23 02:14-03:14"),
        (5, 30.0, 7200.0, 7200.0, "11-23 00:14-02:14"),
        (5, 30.0, 86400.0, 86400.0, "by 11-23 02:14"),
    ],
)
def test_an_event_is_known_no_finer_than_its_snapshots_and_their_values(
    seconds: float, age: float, of_source: float | None, within: float, text: str
) -> None:
    then = replace(host(1), age_seconds=age)
    source = replace(at(0).sources[0], within_seconds=of_source)
    hot = host(1, "hot", *["busy"] * 7, age_seconds=1.0)
    snapshots = at(0, then), at(seconds, hot, sources=(source,))
    (event,) = events(snapshots)
    assert event.within_seconds == within
    (column,) = (each for each in EVENT_COLUMNS if each.key == "time")
    there = replace(event, at=event.at.replace(tzinfo=None).astimezone())
    assert column.text(there) == text


def test_an_event_in_the_night_of_a_longer_hour_is_told_by_the_clocks_of_then(
    in_zone: Callable[[str], None],
) -> None:
    in_zone("Europe/Berlin")
    end = datetime(2026, 10, 25, 1, 14, tzinfo=timezone.utc)
    spans = {30.0: "02:13-02:14", 3600.0: "02:14-02:14", 10800.0: "00:14-02:14"}
    for seconds, text in spans.items():
        event = Event(at=end, within_seconds=seconds, kind="xid", what=SafeText("x"))
        assert event.when == f"10-25 {text}"


def test_a_recording_of_many_hosts_is_read_to_its_end(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "many.jsonl"
    snapshots = at(0, host(1)), at(60, host(1, state="down")), at(120, host(1))
    file.write_bytes(b"".join(document.encode(each) + b"\n" for each in snapshots) + b"torn {\n")
    options = parse(["events", f"--replay={file}", "--json"])
    assert options.run(options) == 0
    found = json.loads(capfd.readouterr().out)
    assert [each["kind"] for each in found] == ["host-down", "host-up"]


def test_a_recording_of_one_host_has_its_leases_too(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "one.jsonl"
    devices = tuple(make_device(index=index) for index in range(2))
    gone = (devices[0], replace(devices[1], state="lost"))
    lease = Lease(uuid=str(devices[0].uuid), index=0, pid=77, username=SafeText("eve"))
    moments = ((devices, ()), (devices, (lease,)), (gone, (lease,)), (devices, ()))
    lines = [
        wire.encode(
            make_snapshot(
                devices=some,
                leases=leases,
                host=make_host(hostname="node1"),
                taken_at=INSTANT + timedelta(minutes=number),
                topology=None,
            )
        )
        for number, (some, leases) in enumerate(moments)
    ]
    file.write_bytes(b"\n".join(lines) + b"\n")
    options = parse(["events", f"--replay={file}"])
    assert options.run(options) == 0
    rows = [line.split()[2:5] for line in capfd.readouterr().out.splitlines()[4:]]
    assert rows == [
        ["lease-taken", "node1", "0"],
        ["gpu-lost", "node1", "1"],
        ["gpu-returned", "node1", "1"],
        ["lease-ended", "node1", "0"],
    ]


def test_what_happened_does_not_depend_on_since_when_is_asked(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "long.jsonl"
    moments = (-50_000, *range(0, 700, 7))
    free = (device(0, "free", job=None),)
    lines = [
        at(each, host(1, state="ok" if each % 3 else "down", devices=free)) for each in moments
    ]
    file.write_bytes(b"".join(document.encode(each) + b"\n" for each in lines))
    found, begin = [], INSTANT + timedelta(seconds=510)
    for since in ("14h", "1h", "196s", "187s"):
        options = parse(["events", f"--replay={file}", f"--since={since}", "--json"])
        assert options.run(options) == 0
        all_of_them = json.loads(capfd.readouterr().out)
        found.append([e for e in all_of_them if datetime.fromisoformat(e["at"]) > begin])
    assert found[0]
    assert found == [found[0]] * len(found)


@pytest.mark.parametrize("hostname", [os.uname().nodename, "another"])
def test_signals_sent_on_a_host_are_among_its_events_alone(
    tmp_path: Path, state: Path, capfd: pytest.CaptureFixture[str], hostname: str
) -> None:
    entry = (
        f'{{"time":"{INSTANT.isoformat()}","pid":7,"signal":"TERM","command":"x","result":"sent"}}'
    )
    (state / "gpudash").mkdir(parents=True)
    (state / "gpudash" / "audit.jsonl").write_text(f"{entry}\ntorn {{\n")
    file = tmp_path / "one.jsonl"
    lines = [
        wire.encode(
            make_snapshot(
                host=make_host(hostname=hostname),
                taken_at=INSTANT + timedelta(minutes=minutes),
                topology=None,
            )
        )
        for minutes in (-1, 1)
    ]
    file.write_bytes(b"\n".join(lines) + b"\n")
    options = parse(["events", f"--replay={file}", "--json"])
    options.run(options)
    found = json.loads(capfd.readouterr().out)
    assert [each["what"] for each in found] == ["TERM to PID 7 (x): sent"] * (hostname != "another")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--host=a,b"], "--host has no past"),
        (["--demo=fleet-2x2", "--since=never"], "is not a time"),
        (["--demo=fleet-2x2", "--at=-1h", "--since=2099-01-01"], "outside|not before"),
    ],
)
def test_mistakes_are_usage_errors(words: list[str], message: str) -> None:
    options = parse(["events", *words])
    with pytest.raises(UsageError, match=message):
        options.run(options)


def test_the_simulated_fleet_has_its_events(capfd: pytest.CaptureFixture[str]) -> None:
    options = parse(
        ["events", "--demo=fleet-64x8", "--since=2h", "--json", "--filter=kind:host rack:r02"]
    )
    assert options.run(options) == 0
    assert [each["kind"] for each in json.loads(capfd.readouterr().out)] == ["host-down"]


@pytest.mark.usefixtures("capfd")
def test_a_terminal_shows_how_far_the_past_was_read() -> None:
    options = parse(["events", "--demo=fleet-64x8", "--since=24h"])
    (terminal, stderr), before = pty.openpty(), os.dup(2)
    os.dup2(stderr, 2)
    assert options.run(options) == 0
    os.dup2(before, 2)
    os.close(before)
    os.close(stderr)
    with os.fdopen(terminal, "rb", buffering=0) as read, suppress(OSError):
        shown = b""
        while chunk := read.read(4096):
            shown += chunk
    first, *others, last = shown.decode().split("\r\x1b[K")
    assert (first, last) == ("", "")
    hours = [each.removeprefix("gpudash: read up to ") for each in others]
    assert re.fullmatch(r"\d\d-\d\d \d\d:00", hours[0])
    assert len(set(hours)) == len(hours) > 3
