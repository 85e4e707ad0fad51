"""What is found on the simulated fleet, and what each rule needs."""

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from functools import cache
from inspect import isgeneratorfunction
from math import inf

import pytest
from msgspec.structs import replace

from gpudash.analysis.health.rule import since
from gpudash.fleet.demo import DemoSource
from gpudash.fleet.events import events
from gpudash.fleet.health import FAMILIES, RULES, checks
from gpudash.fleet.reduce import Reducer
from gpudash.fleet.summary import host_rows, is_whole_and_free, totals
from gpudash.fleet.users import Prices
from gpudash.model.fleet import FleetDevice, FleetHost, FleetSnapshot, FleetSource, HostState
from gpudash.model.host_words import FINDING_WORDS, HOST_STATES
from gpudash.model.snapshot import Finding
from gpudash.model.text import SafeText

START = datetime(2026, 11, 20, tzinfo=timezone.utc)
GIB = 1 << 30
RULE_OF = {
    "straggler": "straggler",
    "xid": "xid-burst",
    "lost": "gpus-lost",
    "down": "host-down",
    "frozen": "host-stale",
    "hot": "hot-outlier",
    "kept-alive": "kept-alive",
    "unused": "allocated-unused",
    "skew": "driver-skew",
    "draining": "hosts-drained",
    "fragmented": "fragmented",
    "held": "held-idle",
}
"""Which rule finds an event of the simulated fleet."""


def findings_of(source: DemoSource, reducer: Reducer | None = None) -> tuple[Finding, ...]:
    reading = source.read()
    snapshot = FleetSnapshot(
        taken_at=START, sources=(reading.report,), hosts=reading.hosts, jobs=reading.jobs
    )
    return documented((reducer or Reducer()).reduce(snapshot, reading.lasted).findings)


@cache
def simulated() -> tuple[Finding, ...]:
    """What is found on the simulated fleet without prices."""
    return findings_of(DemoSource(clock=START.timestamp))


def documented(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    assert {each.rule for each in findings} <= {rule.id for rule in RULES}
    return findings


@pytest.mark.parametrize("seed", [1, 2])
def test_finds_each_event_and_nothing_else(seed: int) -> None:
    source = DemoSource(seed=seed, clock=START.timestamp)
    hosts = source.read().hosts
    found = {finding.rule: finding for finding in findings_of(source)}
    assert set(found) == set(RULE_OF.values())
    for event in source.faults:
        if not event.at <= 0 < event.until or event.kind not in RULE_OF:
            continue
        names = {hosts[host].name for host in event.hosts}
        assert names <= set(found[RULE_OF[event.kind]].hosts), event
    lost = [event for event in source.faults if event.kind == "lost" and event.at < 0 < event.until]
    assert len(found["gpus-lost"].hosts) == len(lost)
    assert len(found["straggler"].uuids) == 1
    assert len(found["hot-outlier"].uuids) == 1
    ages = [found[rule].held_seconds for rule in ("straggler", "hot-outlier", "kept-alive")]
    kept = next(event for event in source.faults if event.kind == "kept-alive")
    assert ages == pytest.approx([5 * 3600, 3600, -kept.at], abs=60)
    held = [event for event in source.faults if event.kind == "held"]
    assert len(found["held-idle"].uuids) == sum(len(event.gpus) for event in held)


def test_every_count_of_gpus_is_the_same() -> None:
    reading = DemoSource(clock=START.timestamp).read()
    snapshot = FleetSnapshot(taken_at=START, hosts=reading.hosts, jobs=reading.jobs)
    found = Reducer().reduce(snapshot)
    rows = host_rows(found)
    sums = totals(rows)
    assert sum(sums.counts.values()) == sums.gpus == 8000
    assert all(sum(row.counts.values()) == row.gpus == 8 for row in rows)
    (spread,) = [each for each in found.findings if each.rule == "fragmented"]
    proof = {each.name: each.value for each in spread.evidence}
    assert proof["free_gpu_count"] == sums.counts["free"]
    assert proof["whole_host_count"] == sum(map(is_whole_and_free, rows))
    assert sum(user.held_idle for user in found.users) == sums.counts["held-idle"]
    held = {"held-idle", "allocated-unused"}
    idle = [each for each in found.findings if each.rule in held]
    assert sum(len(each.uuids) for each in idle) == sums.counts["held-idle"]
    assert all("held idle" in each.sentence for each in idle)
    words = [row.state_text for row in rows if row.worst and row.worst.rule in held]
    assert all(text.endswith("held idle") for text in words)
    gpus_on = {row.host.name: row.gpus for row in rows}
    for job in found.jobs:
        assert (job.busy or 0) <= job.devices <= sum(gpus_on[name] for name in job.hosts)


@pytest.mark.parametrize("seed", [1, 2])
def test_finds_nothing_in_a_calm_fleet(seed: int) -> None:
    assert findings_of(DemoSource(seed=seed, is_calm=True, clock=START.timestamp)) == ()


def test_worst_comes_first_and_each_has_evidence_and_advice() -> None:
    findings = simulated()
    ranks = {"critical": 0, "warn": 1, "info": 2}
    levels = [ranks[finding.level] for finding in findings]
    assert levels == sorted(levels)
    for finding in findings:
        assert finding.evidence, finding.rule
        assert finding.advice, finding.rule
        assert "HOST" not in finding.advice, finding.rule


def test_money_only_by_configured_prices() -> None:
    source = DemoSource(clock=START.timestamp)
    without = [f.sentence for f in simulated() if f.rule == "held-idle"]
    priced = findings_of(source, Reducer(Prices({"NVIDIA": 2.0})))
    assert "price" not in without[0]
    advice = {f.rule: f.advice for f in simulated()}
    assert "has no price: set prices under [fleet]" in advice["held-idle"]
    assert "has no price" not in {f.rule: f.advice for f in priced}["held-idle"]
    assert any("at the configured prices" in f.sentence for f in priced if f.rule == "held-idle")


def fleet(
    *hosts: FleetHost, sources: tuple[FleetSource, ...] = (), seconds: float = 0.0
) -> FleetSnapshot:
    return FleetSnapshot(taken_at=START + timedelta(seconds=seconds), hosts=hosts, sources=sources)


def rules_of(snapshot: FleetSnapshot) -> dict[str, Finding]:
    findings = documented(Reducer().reduce(snapshot).findings)
    return {finding.rule: finding for finding in findings}


def host(name: str, *devices: FleetDevice, **fields: object) -> FleetHost:
    return FleetHost(name=SafeText(name), devices=devices, **fields)  # type: ignore[arg-type]


def gpu(index: int, **fields: object) -> FleetDevice:
    known: dict[str, object] = {"memory_used_bytes": 0, "gpu_utilization_percent": 0.0}
    return FleetDevice(index=index, **known | fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "state", ["down", "auth", "host-key", "no-access", "no-gpudash", "no-gpus", "garbled", "stale"]
)
def test_finds_hosts_that_do_not_answer(state: HostState) -> None:
    found = rules_of(fleet(host("a", state=state), host("b", state=state), host("c")))
    assert found[f"host-{state}"].hosts == ("a", "b")


@pytest.mark.parametrize(("expected", "level"), [(4, "critical"), (None, "warn")])
def test_a_host_that_sees_no_gpu_is_critical_if_it_had_some(
    expected: int | None, level: str
) -> None:
    found = rules_of(fleet(host("a", state="no-gpus", expected_devices=expected)))
    assert found["host-no-gpus"].level == level


def test_only_a_host_with_an_exporter_is_to_have_it_restarted() -> None:
    advice = {}
    for kind in ("ssh", "prometheus"):
        source = FleetSource(kind=kind, name=SafeText("a"))
        found = rules_of(fleet(host("a", state="stale"), sources=(source,)))
        advice[kind] = found["host-stale"].advice or ""
    assert "exporter" in advice["prometheus"]
    assert "exporter" not in advice["ssh"]
    assert "ssh a true" in advice["ssh"]


def test_several_silent_hosts_have_the_reason_of_the_first() -> None:
    messages = ("No route to host", "Connection refused")
    some = [host(name, state="down", message=m) for name, m in zip("ab", messages, strict=True)]
    assert rules_of(fleet(*some))["host-down"].sentence.endswith("a, b; a: No route to host")
    same = [host(name, state="down", message="timed out") for name in "ab"]
    assert rules_of(fleet(*same))["host-down"].sentence.endswith("a, b: timed out")


@pytest.mark.parametrize(("others", "is_shared"), [(2, True), (200, False)])
def test_many_hosts_that_are_down_at_once_share_a_cause(others: int, is_shared: bool) -> None:
    down = [host(f"a{n}", state="down", group="r7") for n in range(9)]
    found = rules_of(fleet(*down, *(host(f"b{n}", group="r8") for n in range(others))))
    assert found["host-down"].sentence.startswith("Each of 9 hosts of r7 cannot be reached")
    assert ("a switch" in found["host-down"].advice) is is_shared
    down.append(host("c", state="down"))
    assert rules_of(fleet(*down))["host-down"].sentence.startswith("Each of 10 hosts cannot")


def test_host_that_has_yet_to_answer_is_no_finding() -> None:
    assert rules_of(fleet(host("a", state="connecting"))) == {}


def test_finds_gpus_that_are_missing() -> None:
    found = rules_of(fleet(host("a", gpu(0), expected_devices=2), host("b", gpu(0))))
    assert found["gpus-missing"].hosts == ("a",)


@pytest.mark.parametrize(
    ("code", "hosts", "rule"),
    [
        (79, 1, "xid-critical"),
        (31, 3, "xid-burst"),
        (31, 2, "xid-warning"),
        (45, 2, None),
        (79, 3, "xid-burst"),
    ],
)
def test_finds_xids(code: int, hosts: int, rule: str | None) -> None:
    some = [host(f"a{n}", gpu(0, xid=code), group="r1") for n in range(hosts)]
    assert list(rules_of(fleet(*some))) == ([] if rule is None else [rule])


def test_a_gpu_of_a_finding_of_heat_is_hot_and_no_event_of_one_that_slows_down() -> None:
    def rack(celsius: int) -> FleetSnapshot:
        usual = {"gpu_utilization_percent": 90.0, "memory_used_bytes": 60 * GIB, "name": "H100"}
        degrees = [celsius, *[60] * 17]
        some = (
            gpu(n, uuid=f"GPU-{n}", users=("a",), temperature_celsius=each, **usual)
            for n, each in enumerate(degrees)
        )
        return fleet(host("a", *some))

    before, found = (Reducer().reduce(rack(celsius)) for celsius in (60, 88))
    (row,) = host_rows(found)
    assert (row.state_text, row.counts) == ("1 hot", {"hot": 1, "busy": 17})
    assert totals([row]).counts["hot"] == 1
    assert found.users[0].busy == 17
    assert [*events((before, found))] == []


def test_what_was_lost_last_stands_first() -> None:
    old, new = (gpu(0, state="lost", age_seconds=seconds) for seconds in (4800.0, 40.0))
    found = rules_of(fleet(host("a", old), host("b", new)))["gpus-lost"]
    assert "b GPU 0, a GPU 0" in found.sentence
    assert (found.held_seconds, found.newest_seconds) == (4800, 40)
    assert since(found, START).endswith(", newest 40 s ago")
    (alone,) = rules_of(fleet(host("a", old))).values()
    assert alone.newest_seconds is None


def test_since_when_is_as_clocks_showed_then(in_zone: Callable[[str], None]) -> None:
    in_zone("Europe/Berlin")
    found = rules_of(fleet(host("a", gpu(0, state="lost", age_seconds=36000.0))))["gpus-lost"]
    assert since(found, datetime(2026, 10, 25, 7, tzinfo=timezone.utc)) == "since 10-24 23:00"


def test_an_error_of_an_unknown_time_is_said_to_be_that() -> None:
    found = rules_of(fleet(host("a", gpu(0, xid=79))))["xid-critical"]
    assert "XID 79 on 1 GPU of 1 host, it is not known when: " in found.sentence
    assert found.held_seconds is None


def test_other_hosts_with_an_xid_of_many_are_counted() -> None:
    some = [host(f"a{n}", gpu(0, xid=31, xid_seconds=9.0), group="r1") for n in range(3)]
    found = rules_of(fleet(*some, host("b0", gpu(0, xid=31), group="r2")))
    assert "of 3 hosts of r1 and 1 other: " in found["xid-burst"].sentence


def test_finds_jobs_that_use_a_part_of_their_gpus() -> None:
    idle = [gpu(n, job="7", memory_used_bytes=2 * GIB, idle_seconds=1000.0) for n in range(1, 8)]
    busy = gpu(0, job="7", gpu_utilization_percent=80.0)
    found = rules_of(fleet(host("a", busy, *idle)))
    assert list(found) == ["imbalanced-job"]
    assert "1 of its 8 GPUs" in found["imbalanced-job"].sentence


def test_who_holds_gpus_idle_is_told_by_gpus_and_not_by_hours() -> None:
    def held(index: int, user: str, hours: float, job: str | None = None) -> FleetDevice:
        return gpu(
            index,
            users=(SafeText(user),) if user else (),
            job=job,
            memory_used_bytes=2 * GIB,
            idle_seconds=hours * 3600,
        )

    some = [held(0, "bob", 10), held(1, "bob", 10), held(2, "alice", 5)]
    found = rules_of(fleet(host("a", *some)))
    assert found["held-idle"].sentence.endswith(
        "at least 25 GPU-hours so far: bob 2 GPUs, alice 1 GPU"
    )
    nameless = [held(0, "", 10, "4242"), held(1, "", 9), held(2, "alice", 5)]
    found = rules_of(fleet(host("a", *nameless)))
    assert found["held-idle"].sentence.endswith(
        "by 1 user, at least 24 GPU-hours so far: job 4242 1 GPU, unknown 1 GPU, alice 1 GPU"
    )


def test_hosts_that_are_drained_are_found_by_the_reason() -> None:
    reasons = ("fan (root, since 2026-11-23 03:07)", "firmware", "firmware")
    hosts = [host(name, gpu(0), drain_reason=why) for name, why in zip("abc", reasons, strict=True)]
    found = rules_of(fleet(*hosts, host("d", gpu(0)), host("e", state="down", drain_reason="x")))
    drained = found["hosts-drained"]
    assert (drained.level, drained.hosts) == ("info", ("a", "b", "c", "e"))
    assert drained.sentence == (
        "4 hosts are drained: a: fan (root, since 2026-11-23 03:07); b, c: firmware; e: x"
    )
    (row, *_) = sorted(host_rows(fleet(host("d", gpu(0)), hosts[0])), key=lambda r: r.worst_first)
    assert row.host.name == "a"


def test_finds_sources_that_fail_or_answer_in_part() -> None:
    failed = FleetSource(kind="prometheus", name=SafeText("http://a"), state="failed")
    partial = FleetSource(
        kind="prometheus", name=SafeText("http://b"), warnings=(SafeText("store c is gone"),)
    )
    found = rules_of(fleet(sources=(failed, partial)))
    assert set(found) == {"source-failed", "source-partial"}
    assert "store c is gone" in found["source-partial"].sentence


def test_source_whose_hosts_have_states_is_no_finding_of_its_own() -> None:
    ssh = FleetSource(kind="ssh", name=SafeText("a"), state="failed")
    assert set(rules_of(fleet(host("a", state="down"), sources=(ssh,)))) == {"host-down"}


def test_what_was_there_at_the_start_may_be_older() -> None:
    reducer = Reducer()
    lost = host("a", gpu(0, state="lost"))
    found = [reducer.reduce(fleet(lost, seconds=at)).findings[0] for at in (0, 60, 120)]
    assert [each.held_seconds for each in found] == [None, None, None]


@pytest.mark.parametrize("is_settled", [True, False])
def test_what_comes_while_a_host_is_watched_began_then(is_settled: bool) -> None:
    reducer = Reducer()
    fine, lost = host("a", gpu(0)), host("a", gpu(0, state="lost"))
    reducer.reduce(fleet(fine), is_settled=is_settled)
    reducer.reduce(fleet(lost, seconds=60))
    (found,) = reducer.reduce(fleet(lost, seconds=120)).findings
    assert found.held_seconds == (60.0 if is_settled else None)


def test_what_a_host_has_that_was_away_may_be_older() -> None:
    reducer = Reducer()
    lost = host("a", gpu(0, state="lost"))
    for at, each in enumerate((host("a", gpu(0)), host("a", state="connecting"), lost, lost)):
        found = reducer.reduce(fleet(each, seconds=60.0 * at)).findings
    assert [each.held_seconds for each in found] == [None]


def test_data_that_has_a_time_is_believed() -> None:
    devices = (
        gpu(0, state="lost", age_seconds=4800.0),
        gpu(1, state="lost"),
        gpu(2, xid=79, xid_seconds=5.0),
    )
    found = Reducer().reduce(fleet(host("a", *devices))).findings
    held = {each.rule: each.held_seconds for each in found}
    assert held == {"gpus-lost": 4800.0, "xid-critical": 5.0}


def test_what_is_held_idle_is_as_new_as_the_newest_of_it() -> None:
    held = [
        gpu(n, status="held-idle", memory_used_bytes=GIB * 40, idle_seconds=seconds)
        for n, seconds in enumerate((9000.0, 4000.0))
    ]
    (found,) = Reducer().reduce(fleet(host("a", *held))).findings
    assert (found.held_seconds, found.newest_seconds) == (9000.0, 4000.0)


def test_what_is_held_idle_for_longer_than_is_known_has_no_duration() -> None:
    uuid, seconds = SafeText("GPU-0"), 86400.0
    held = gpu(0, uuid=uuid, status="held-idle", memory_used_bytes=GIB, idle_seconds=seconds)
    for lasted, expected in (({}, seconds), ({("held-idle", uuid): inf}, None)):
        (found,) = Reducer().reduce(fleet(host("a", held)), lasted).findings
        assert (found.rule, found.held_seconds) == ("held-idle", expected)
        assert "at least 24 GPU-hours" in found.sentence


def test_what_a_source_dates_is_the_time_of_the_finding_and_of_the_host() -> None:
    job = [gpu(n, job="7", sm_clock_mhz=1980, gpu_utilization_percent=95.0) for n in range(8)]
    slow = replace(job[3], sm_clock_mhz=1200, uuid=SafeText("GPU-slow"))
    snapshot, reducer = fleet(host("a", *job[:3], slow, *job[4:])), Reducer()
    (found,) = reducer.reduce(snapshot).findings
    assert found.held_seconds is None
    whole = reducer.reduce(snapshot, dict.fromkeys(reducer.lasting, 600.0))
    assert [each.held_seconds for each in whole.findings] == [600.0]
    assert whole.hosts[0].slow_seconds == {"GPU-slow": 600.0}


def test_two_findings_of_one_rule_on_one_host_have_each_their_own_time() -> None:
    reducer = Reducer()
    first, second = gpu(0, xid=79), gpu(1, xid=95)
    reducer.reduce(fleet(host("a", first, gpu(1))))
    reducer.reduce(fleet(host("a", first, second), seconds=60))
    found = reducer.reduce(fleet(host("a", first, second), seconds=120)).findings
    assert {each.rule for each in found} == {"xid-critical"}
    assert {each.held_seconds for each in found} == {None, 60.0}


def test_what_is_worst_about_a_host_that_answers_has_a_word_and_a_letter_of_its_own() -> None:
    found = {each.rule for each in simulated() if each.level != "info"}
    assert {rule for rule in found if not rule.startswith("host-")} <= set(FINDING_WORDS)
    words = {each.word: each.letter for each in FINDING_WORDS.values() if each.letter}
    words |= {each.word: each.letter for each in HOST_STATES.values() if each.letter}
    assert len(set(words.values())) == len(words)


def test_every_check_that_is_written_examines_the_hosts() -> None:
    written = {
        each
        for family in FAMILIES
        for name, each in vars(family).items()
        if isgeneratorfunction(each) and not name.startswith("_")
    }
    assert written == set(checks())


@pytest.mark.parametrize(
    ("job", "command"),
    [("184203", "scontrol"), ("ml/train-0", "kubectl cordon a;"), (None, "Keep new jobs off a;")],
)
def test_a_broken_host_is_drained_by_its_own_scheduler(job: str | None, command: str) -> None:
    other = host("b", gpu(0, job=job, gpu_utilization_percent=90.0))
    advice = rules_of(fleet(host("a", gpu(0, state="lost")), other))["gpus-lost"].advice
    assert advice.startswith(command)


def test_slurm_is_told_the_names_that_it_has() -> None:
    broken = host("a.lab.example", gpu(0, state="lost", job="1"))
    down = host("b.lab.example", state="down")
    found = rules_of(fleet(broken, down, host("c.lab.example", gpu(0), drain_reason="fan")))
    for rule, command, enter in (
        ("gpus-lost", "NodeName=a State", "ssh a.lab.example"),
        ("host-down", "show node b.", "ssh b.lab.example"),
        ("hosts-drained", "NodeName=c State", ""),
    ):
        assert command in found[rule].advice
        assert enter in found[rule].advice


@pytest.mark.parametrize("kind", ["slurm", "ssh"])
def test_only_where_there_is_slurm_it_is_asked_for_a_host_that_is_down(kind: str) -> None:
    source = FleetSource(kind=kind, name=SafeText("x"))
    advice = rules_of(fleet(host("a", state="down"), sources=(source,)))["host-down"].advice
    assert advice is not None
    assert ("scontrol show node a" in advice) == (kind == "slurm")


@pytest.mark.parametrize("name", ["a;reboot", "-oProxyCommand=x", "$(id)", "a b"])
def test_advice_has_no_command_from_a_name(name: str) -> None:
    lost = fleet(host(name, gpu(0, state="lost")))
    assert name not in rules_of(lost)["gpus-lost"].advice


def test_how_long_a_job_has_left_gpus_unused_is_the_least_that_is_known() -> None:
    unused = gpu(0, job=SafeText("9"), idle_seconds=7200.0)
    sentence = rules_of(fleet(host("a", unused)))["allocated-unused"].sentence
    assert "held idle for at least 2 h" in sentence


def test_a_mig_instance_is_named_after_its_gpu() -> None:
    parent = SafeText("GPU-1")
    instance = gpu(7, parent_uuid=parent, job=SafeText("9"), idle_seconds=7200.0)
    found = rules_of(fleet(host("gpu01", gpu(0), gpu(1, uuid=parent), instance)))
    assert "gpu01 GPU 1:7" in found["allocated-unused"].sentence


@pytest.mark.parametrize(
    ("job", "command"),
    [
        ("4242", "scancel 4242"),
        ("4242_17", "scancel 4242_17"),
        ("4242+1", "scancel 4242+1"),
        ("team/pod-0", "kubectl -n team delete pod pod-0"),
        ("4242;id", None),
    ],
)
def test_a_job_of_any_kind_has_a_command_that_ends_it(job: str, command: str | None) -> None:
    unused = gpu(0, job=SafeText(job), idle_seconds=7200.0)
    advice = rules_of(fleet(host("a", unused)))["allocated-unused"].advice or ""
    assert advice.partition("; to end it: ")[2] == (command or "")


def test_a_straggler_is_seen_in_a_job_that_has_mig_instances_as_well() -> None:
    job, parent = SafeText("9"), SafeText("GPU-0")
    gpus = [
        gpu(n, job=job, gpu_utilization_percent=90.0, sm_clock_mhz=1980 if n < 5 else 1300)
        for n in range(1, 6)
    ]
    split = gpu(0, uuid=parent), gpu(7, parent_uuid=parent, job=job, name=SafeText("MIG 1g"))
    running = replace(split[1], gpu_utilization_percent=90.0, sm_clock_mhz=1980)
    found = rules_of(fleet(host("gpu01", split[0], running, *gpus)))
    assert "gpu01 GPU 5 runs at 66% of the clock" in found["straggler"].sentence


@pytest.mark.parametrize(
    ("slow", "words"),
    [
        (
            (0,),
            "g0 GPU 0 runs at 51% of the clock of the other 15 of job 9: "
            "its power limit is 300 W, theirs 700 W",
        ),
        (
            (0, 1),
            "g0 GPU 0, g1 GPU 0 run at 51% of the clock of the other 14 of job 9: "
            "the power limit of g0 GPU 0 is 300 W, that of most 700 W",
        ),
    ],
)
def test_tells_one_straggler_from_several(slow: tuple[int, ...], words: str) -> None:
    def at(number: int, index: int) -> FleetDevice:
        is_slow = number in slow and index == 0
        return gpu(
            index,
            job=SafeText("9"),
            gpu_utilization_percent=90.0,
            sm_clock_mhz=1010 if is_slow else 1980,
            enforced_power_limit_mw=300_000 if is_slow else 700_000,
        )

    hosts = [host(f"g{n}", *(at(n, index) for index in range(4))) for n in range(4)]
    found = rules_of(fleet(*hosts))["straggler"]
    assert found.sentence == words
    # On a line of the map the reason has room before what follows from it.
    assert found.advice.startswith(f"The others wait for {'it' if len(slow) == 1 else 'them'}. ")


def test_tells_which_of_several_stragglers_is_warm() -> None:
    gpus = [
        gpu(
            n,
            job=SafeText("9"),
            gpu_utilization_percent=90.0,
            sm_clock_mhz=1010 if n < 2 else 1980,
            temperature_celsius=80 if n == 0 else 60,
        )
        for n in range(8)
    ]
    sentence = rules_of(fleet(host("g0", *gpus)))["straggler"].sentence
    assert sentence.startswith("g0 GPU 0-1 run at 51% ")
    assert sentence.endswith(" of job 9: g0 GPU 0 has 80 °C, most have 60 °C")
