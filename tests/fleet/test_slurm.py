"""What Slurm prints about jobs and nodes; the answers are those of Slurm 22.05."""

import sys
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpudash.fleet.collector import merge
from gpudash.fleet.command import CommandSource
from gpudash.fleet.reduce import Reducer
from gpudash.fleet.slurm import owners, parse, read
from gpudash.fleet.source import Reading
from gpudash.model.fleet import Event, FleetDevice, FleetHost, FleetJob, FleetRequest, FleetSource
from gpudash.model.text import SafeText
from tests.feed.clock import Clock
from tests.waiting import LIMIT_SECONDS, until

AT = datetime(2026, 11, 23, tzinfo=timezone.utc)
QUEUE = (
    b"1|1|games|(null)|gpu|RUNNING|1:02|2-00:00:00|gpu[01-02]|train-llm",
    b"2|2|news|phys|gpu|RUNNING|1-00:00:01|8:00:00|gpu03|notebook",
    b"5|3_1|mail|(null)|gpu|RUNNING|0:01|UNLIMITED|gpu03|sweep",
)
_REST = b"Account=(null) QOS=(null) JobState=RUNNING Reason=None NumNodes=1 TRES=cpu=2,node=2"
JOBS = (
    b"JobId=1 JobName=train-llm UserId=games(5) GroupId=root(0) " + _REST + b" JOB_GRES=gpu:h100:16"
    b"   Nodes=gpu[01-02] CPU_IDs=0 Mem=0 GRES=gpu:h100:8(IDX:0-7) MinCPUsNode=1 Command=(null)",
    b"JobId=2 JobName=notebook UserId=news(9) GroupId=root(0) " + _REST + b" JOB_GRES=gpu:h100:2"
    b"   Nodes=gpu03 CPU_IDs=0-3 Mem=0 GRES=gpu:h100:2(IDX:0-1) MinCPUsNode=4",
    b"JobId=5 ArrayJobId=3 ArrayTaskId=1 JobName=sweep UserId=mail(8) GroupId=root(0) " + _REST
    + b" JOB_GRES=gpu:h100:1   Nodes=gpu03 CPU_IDs=4 Mem=0 GRES=gpu:h100:1(IDX:2) MinCPUsNode=1",
    b"JobId=9 JobName=waiting UserId=nobody(65534) JobState=PENDING Reason=Resources NodeList=",
)  # fmt: skip
NODES = (
    *(
        b"NodeName=gpu0%d Arch=x86_64 CoresPerSocket=16 Gres=gpu:h100:8(S:0-1) NodeAddr=127.0.0.1 "
        b"OS=Linux 6.1 #1 SMP State=MIXED ThreadsPerCore=1 Partitions=gpu,debug BootTime=x" % number
        for number in (1, 2, 3)
    ),
    b"NodeName=gpu04 Arch=x86_64 Gres=gpu:h100:8 State=IDLE+DRAIN Partitions=gpu  CfgTRES=cpu=32 "
    b"Reason=XID 79 on GPU 5, ticket 4711 [root@2026-11-23T03:07:24]",
    b"NodeName=cpu01 Arch=x86_64 Gres=(null) State=IDLE Partitions=cpu ",
)


def test_jobs_have_their_gpus() -> None:
    _, jobs = parse(QUEUE, JOBS, NODES)
    found = {job.id: job for job in jobs}
    assert set(found) == {"1", "2", "3_1"}
    large = found["1"]
    assert (large.user, large.devices, large.hosts) == ("games", 16, ("gpu01", "gpu02"))
    assert (large.elapsed_seconds, large.limit_seconds) == (62.0, 172800.0)
    assert (found["2"].account, found["2"].elapsed_seconds) == ("phys", 86401.0)
    assert found["3_1"].limit_seconds is None


def test_gpus_have_their_jobs() -> None:
    hosts = {host.name: host for host in parse(QUEUE, JOBS, NODES)[0]}
    assert set(hosts) == {"gpu01", "gpu02", "gpu03", "gpu04"}
    given = [(each.index, each.job, each.users) for each in hosts["gpu03"].devices]
    assert given == [(0, "2", ("news",)), (1, "2", ("news",)), (2, "3_1", ("mail",))]
    assert [each.index for each in hosts["gpu01"].devices] == list(range(8))
    assert (hosts["gpu01"].group, hosts["gpu01"].expected_devices) == ("gpu", 8)


def test_drained_node_has_its_reason() -> None:
    hosts = {host.name: host for host in parse(QUEUE, JOBS, NODES)[0]}
    assert hosts["gpu04"].drain_reason == (
        "XID 79 on GPU 5, ticket 4711 (root, since 2026-11-23 03:07)"
    )
    assert hosts["gpu01"].drain_reason is None


@pytest.mark.parametrize(
    ("state", "reason"),
    [(b"DOWN*", "DOWN"), (b"IDLE+MAINT", "MAINT"), (b"MIXED+DRAIN", "DRAIN"), (b"ALLOCATED", None)],
)
def test_closed_node_without_a_reason_has_its_state(state: bytes, reason: str | None) -> None:
    line = b"NodeName=a Gres=gpu:2,shard:4 State=" + state + b" Partitions=x"
    ((host,), _) = parse((), (), (line,))
    assert (host.drain_reason, host.expected_devices) == (reason, 2)


@pytest.mark.parametrize(
    "state",
    [b"IDLE+CLOUD+POWERED_DOWN", b"IDLE+POWERING_DOWN", b"MIXED+POWERING_UP", b"IDLE+POWER"],
)
def test_a_node_that_slurm_powers_down_is_neither_drained_nor_wrong(state: bytes) -> None:
    nodes = [
        b"NodeName=%s Gres=gpu:2 State=%s Partitions=x" % (name, state) for name in (b"a", b"b")
    ]
    hosts, _ = parse((), (), nodes)
    assert {host.drain_reason for host in hosts} == {None}
    gpus = FleetDevice(index=0), FleetDevice(index=1)
    for seen, shown in (("down", "powered-down"), ("stale", "powered-down"), ("ok", "ok")):
        known = FleetHost(name=SafeText("a"), state=seen, message=SafeText("x"), devices=gpus)
        report = FleetSource(kind="prometheus", name=SafeText("p"), expected_hosts=1)
        slurm = Reading(report=FleetSource(kind="slurm", name=SafeText("s")), hosts=hosts)
        found = Reducer().reduce(merge([Reading(report=report, hosts=(known,)), slurm]))
        assert [host.state for host in found.hosts] == [shown, "powered-down"]
        assert [each.level for each in found.findings if each.level != "info"] == []


def test_a_node_drained_and_powered_down_is_drained() -> None:
    line = b"NodeName=a Gres=gpu:2 State=IDLE+DRAIN+POWERED_DOWN Partitions=x Reason=RMA"
    ((host,), _) = parse((), (), (line,))
    assert (host.drain_reason, host.state) == ("RMA", "ok")


def test_a_node_with_another_name_than_its_host_is_that_host() -> None:
    """It is addressed by the name that Slurm has for it."""
    nodes = (
        b"NodeName=c4 Gres=gpu:2 NodeAddr=10.0.0.4 NodeHostName=gpu04.lab State=MIXED Partitions=x",
        b"NodeName=c5 Gres=gpu:2 NodeHostName=gpu05 State=IDLE+DRAIN Partitions=x Reason=RMA",
        # Of several on one host it is not known which GPUs are whose.
        b"NodeName=v1 Gres=gpu:2 NodeHostName=many State=IDLE Partitions=x",
        b"NodeName=v2 Gres=gpu:2 NodeHostName=many State=IDLE Partitions=x",
    )
    queue = b"1|1|ada|(null)|x|RUNNING|1:02|2:00|c4|train"
    job = b"JobId=1 JobName=train   Nodes=c4 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:1) MinCPUsNode=1"
    hosts, jobs = parse((queue,), (job,), nodes)
    assert [(host.name, host.node_name) for host in hosts] == [
        ("gpu04.lab", "c4"),
        ("gpu05", "c5"),
        ("v1", None),
        ("v2", None),
    ]
    assert jobs[0].hosts == ("gpu04.lab",)
    assert [(each.index, each.job) for each in hosts[0].devices] == [(1, "1")]
    lost = FleetDevice(index=1, state="lost")
    known = [
        FleetHost(name=SafeText(name), devices=(FleetDevice(index=0), lost))
        for name in ("gpu04", "gpu05.lab")
    ]
    slurm = Reading(report=FleetSource(kind="slurm", name=SafeText("s")), hosts=hosts, jobs=jobs)
    ssh = Reading(report=FleetSource(kind="ssh", name=SafeText("a")), hosts=tuple(known))
    found = Reducer().reduce(merge([ssh, slurm]))
    assert [host.drain_reason for host in found.hosts] == [None, "RMA"]
    advice = {each.rule: each.advice or "" for each in found.findings}
    assert "NodeName=c4,c5 State=DRAIN" in advice["gpus-lost"]
    assert "NodeName=c5 State=RESUME" in advice["hosts-drained"]
    # Where hosts are known by the names of their nodes, it is these.
    known = [replace(host, name=SafeText(f"c{number}")) for number, host in enumerate(known, 4)]
    found = merge([replace(ssh, hosts=tuple(known)), slurm])
    assert [(host.name, host.drain_reason) for host in found.hosts] == [("c4", None), ("c5", "RMA")]
    assert found.jobs[0].hosts == ("c4",)
    assert found.hosts[0].devices[1].job == "1"


@pytest.mark.parametrize("gres", [b"shard:3(IDX:4)", b"mps:50(IDX:4)", b"shard:h100:3(IDX:4)"])
def test_a_share_of_a_gpu_has_that_gpu(gres: bytes) -> None:
    node = b"NodeName=gpu03 Gres=gpu:h100:8,shard:h100:32 State=MIXED Partitions=gpu "
    queue = b"6|6|news|(null)|gpu|RUNNING|0:35|UNLIMITED|gpu03|sh1"
    job = b"JobId=6 JobName=sh1   Nodes=gpu03 CPU_IDs=6 Mem=0 GRES=" + gres
    (host,), (found,) = parse((queue,), (job,), (node,))
    assert [(each.index, each.job) for each in host.devices] == [(4, "6")]
    assert (found.devices, found.hosts) == (1, ("gpu03",))


def test_a_gpu_that_is_not_consumed_is_counted() -> None:
    gres = b"gpu:h100:no_consume:8,gpu_mem:640000,shard:h100:32"
    line = b"NodeName=a Gres=%s State=IDLE Partitions=x" % gres
    ((host,), _) = parse((), (), (line,))
    assert host.expected_devices == 8


def test_instances_are_not_taken_for_gpus() -> None:
    node = b"NodeName=gpu03 Gres=gpu:1g.10gb:7 State=IDLE Partitions=gpu "
    ((host,), jobs) = parse(QUEUE, JOBS, (node,))[0][:1], parse(QUEUE, JOBS, (node,))[1]
    assert (host.expected_devices, host.devices) == (None, ())
    assert "2" in {job.id for job in jobs}


def test_name_of_a_job_is_nothing_but_a_name() -> None:
    name = b"x|root UserId=root(0)   Nodes=gpu01 CPU_IDs=0 Mem=0 GRES=gpu:8(IDX:0-7)"
    queue = (*QUEUE, b"7|7|eve|(null)|gpu|RUNNING|0:01|1:00|gpu04|" + name)
    jobs = (*JOBS, b"JobId=7 JobName=" + name + b" UserId=eve(1) JobState=RUNNING")
    hosts, found = parse(queue, jobs, NODES)
    assert {job.user for job in found} == {"games", "news", "mail"}
    assert {each.job for host in hosts if host.name == "gpu01" for each in host.devices} == {"1"}


@pytest.mark.parametrize(
    "line", [b"", b"\xff\xfe", b"JobId=1", b"NodeName=", b"JobId=1 JobName=x   Nodes=[ CPU_IDs=0 "
    b"Mem=0 GRES=gpu:1(IDX:9-1,-,99999999999)", b"|||||||||", b"x|1|a|b|c|d|e|f|@all|n"]
)  # fmt: skip
def test_odd_line_costs_no_other(line: bytes) -> None:
    odd = (line,)
    assert parse((*odd, *QUEUE), (*odd, *JOBS), (*odd, *NODES)) == parse(QUEUE, JOBS, NODES)


@given(st.lists(st.binary(max_size=80), max_size=4))
def test_any_output_is_read(lines: list[bytes]) -> None:
    assert isinstance(parse(lines, lines, lines), tuple)


@pytest.mark.parametrize("cluster", [None, "east"])
@pytest.mark.parametrize("domain", ["", ".lab"])
def test_collector_adds_jobs_to_gpus(domain: str, cluster: str | None) -> None:
    hosts, jobs = parse(QUEUE, JOBS, NODES)
    ours = FleetHost(
        name=SafeText(f"gpu03{domain}"),
        cluster=None if cluster is None else SafeText(cluster),
        devices=(FleetDevice(index=0), FleetDevice(index=5)),
    )
    ssh = Reading(report=FleetSource(kind="ssh", name=SafeText("a")), hosts=(ours,))
    slurm = Reading(report=FleetSource(kind="slurm", name=SafeText("b")), hosts=hosts, jobs=jobs)
    merged = merge([ssh, slurm])
    (host,) = merged.hosts
    assert [(each.job, each.users) for each in host.devices] == [("2", ("news",)), (None, ())]
    assert (host.expected_devices, host.group) == (8, "gpu")
    assert {each.cluster for each in merged.jobs} == {cluster}


def test_gpus_that_only_name_a_job_have_its_user() -> None:
    hosts, jobs = parse(QUEUE, JOBS, NODES)
    labels = (
        FleetDevice(index=0, job=SafeText("5")),
        FleetDevice(index=1, uuid=SafeText("GPU-1")),
        FleetDevice(index=3, parent_uuid=SafeText("GPU-1"), job=SafeText("2")),
        FleetDevice(index=4, job=SafeText("1")),
        FleetDevice(index=5, job=SafeText("77")),
    )
    seen = Reading(
        report=FleetSource(kind="prometheus", name=SafeText("a")),
        hosts=(FleetHost(name=SafeText("gpu03"), devices=labels),),
        jobs=(FleetJob(id=SafeText("5"), devices=1), FleetJob(id=SafeText("77"), devices=1)),
        events=(Event(at=AT, kind="job-began", job=SafeText("5"), what=SafeText("1 GPU")),),
    )
    slurm = Reading(report=FleetSource(kind="slurm", name=SafeText("b")), hosts=hosts, jobs=jobs)
    merged = merge([seen, slurm])
    (host,) = merged.hosts
    # Neither whose number is another GPU's in Slurm counts, nor another cluster's job of that id.
    assert [(each.job, each.users) for each in host.devices] == [
        ("3_1", ("mail",)),
        ("2", ("news",)),
        ("2", ("news",)),
        ("1", ()),
        ("77", ()),
    ]
    known = {job.id: job.user for job in merged.jobs}
    assert known == {"3_1": "mail", "77": None, "1": "games", "2": "news"}
    assert [each.job for each in merged.events or ()] == ["3_1"]


PRINTED = (QUEUE, JOBS, NODES)
PRINTS = "import sys; sys.stdout.buffer.write({!r})"


def slurm(*programs: str, **more: Any) -> CommandSource:
    """A Slurm of these programs, or of one three times."""
    commands = [[sys.executable, "-c", program] for program in programs]
    return CommandSource("slurm", commands * (3 // len(commands)), read, **more)


def worked(source: CommandSource) -> Reading:
    def is_done() -> bool:
        source.advance()
        return source.read().report.state != "starting"

    until(is_done)
    reading = source.read()
    source.close()
    return reading


def test_asks_slurm() -> None:
    reading = worked(printing())
    assert (reading.report.state, reading.report.kind) == ("ok", "slurm")
    assert len(reading.hosts) == 4
    assert len(reading.jobs) == 3


def printing(**texts: bytes) -> CommandSource:
    """A Slurm whose commands print these texts, and elsewhere what they print here."""
    usual = dict(zip(("queue", "jobs", "nodes"), PRINTED, strict=True))
    whole = {name: b"\n".join(lines) + b"\n" for name, lines in usual.items()} | texts
    return slurm(*map(PRINTS.format, whole.values()))


@pytest.mark.parametrize(
    ("name", "command"), [("queue", "squeue"), ("jobs", "scontrol"), ("nodes", "scontrol")]
)
@pytest.mark.parametrize(
    "text",
    [
        b"<html><title>502 Bad Gateway</title></html>\n",
        b"Welcome to the cluster!\n\n\x1b[2Jplease log in\n",
        b"without a newline",
        b"\xff\xfe\x00" * 99 + b"\n",
    ],
)
def test_what_slurm_does_not_print_is_a_failure(name: str, command: str, text: bytes) -> None:
    reading = worked(printing(**{name: text}))
    assert (reading.report.state, reading.hosts) == ("failed", ())
    assert str(reading.report.message).startswith(f"{command}: not what Slurm prints: '")
    assert str(reading.report.message).isprintable()


def test_a_slurm_without_jobs_or_nodes_is_none_that_fails() -> None:
    nothing = {"queue": b"", "jobs": b"No jobs in the system\n"}
    reading = worked(printing(**nothing))
    assert (reading.report.state, len(reading.hosts), reading.jobs) == ("ok", 4, ())
    reading = worked(printing(**nothing, nodes=b"No nodes in the system\n"))
    assert (reading.report.state, reading.hosts) == ("ok", ())
    reading = worked(printing(**nothing, nodes=b""))
    assert (reading.report.state, reading.hosts) == ("failed", ())
    assert "printed nothing" in str(reading.report.message)


def test_answers_and_lines_have_a_limit() -> None:
    for text, size in (("b'a' * 8191 + b'\\n'", 8192), ("b'a' * 8192", 8192)):
        program = (
            f"import sys\nfor _ in range({(65 << 20) // size}): sys.stdout.buffer.write({text})"
        )
        reading = worked(slurm(program, deadline=LIMIT_SECONDS))
        assert reading.report.state == "failed"
        assert "more than 64 MiB" in str(reading.report.message)


def test_says_why_slurm_does_not_answer() -> None:
    program = "import sys; sys.exit('slurm_load_jobs error: Unable to contact slurm controller')"
    reading = worked(slurm(program))
    assert reading.report.state == "failed"
    assert "Unable to contact slurm controller" in str(reading.report.message)


def test_slurm_that_hangs_is_left_behind() -> None:
    source = slurm("import time; time.sleep(600)", deadline=0.2)
    assert "no answer" in str(worked(source).report.message)


def test_missing_command_is_a_failure() -> None:
    source = CommandSource("slurm", [["/nonexistent/squeue"]], read)
    assert "cannot be started" in str(worked(source).report.message)


def test_what_slurm_knew_is_over_some_minutes_after_it_last_answered(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    script = (
        "import os, sys; os.path.exists({!r}) and sys.exit('gone'); sys.stdout.buffer.write({!r})"
    )
    clock = Clock()
    programs = [script.format(str(gone), b"\n".join(lines) + b"\n") for lines in PRINTED]
    source = slurm(*programs, deadline=1e6, clock=clock)

    def elapsed(reading: Reading) -> list[float | None]:
        return [job.elapsed_seconds for job in reading.jobs]

    def read_in(state: str) -> Reading:
        def is_so() -> bool:
            source.advance()
            return source.read().report.state == state

        until(is_so)
        return source.read()

    with closing(source):
        assert elapsed(read_in("ok")) == [62.0, 86401.0, 1.0]
        clock.now += 59.0
        assert elapsed(source.read()) == [121.0, 86460.0, 60.0]
        gone.touch()
        clock.now += 1.0
        failing = read_in("stale")
        assert elapsed(failing) == [62.0, 86401.0, 1.0]
        assert (len(failing.hosts), failing.report.age_seconds) == (4, 60.0)
        clock.now += 121.0
        over = read_in("failed")
        assert (over.hosts, over.jobs) == ((), ())
        assert (over.report.age_seconds, over.report.answering_hosts) == (181.0, 0)
        assert over.report.message == f"{sys.executable}: gone"
        # What was asked meanwhile has to fail before it is asked again.
        until(lambda: source.advance() or 1.0 < source.due_in() <= 60.0)
        gone.unlink()
        clock.now += 60.0
        assert elapsed(read_in("ok")) == [62.0, 86401.0, 1.0]


def test_nothing_is_known_of_the_past() -> None:
    source = printing()
    source.ask(FleetRequest(at=datetime(2026, 1, 1, tzinfo=timezone.utc)))
    reading = worked(source)
    assert (reading.report.state, reading.hosts, reading.report.answering_hosts) == ("ok", (), 0)


def test_owners_are_those_of_accounting_and_of_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = {"sacct": "41|41|ann\n47|46_1|bob\n48||\n", "squeue": "43|43|eve\n", "scontrol": ""}
    for name, text in printed.items():
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\nprintf '{text}'\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("SLURM_CONF", "/dev/null")
    now = datetime.now(timezone.utc)
    assert owners(now) == {"41": "ann", "47": "bob", "46_1": "bob", "43": "eve"}
    (tmp_path / "sacct").unlink()
    assert owners(now) == {"43": "eve"}
    (tmp_path / "squeue").unlink()
    assert owners(now) == {}
