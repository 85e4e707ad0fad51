from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone
from operator import attrgetter
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from msgspec.structs import replace

from gpudash.analysis.minutes import Minutes
from gpudash.analysis.report import ReportSums
from gpudash.cli.arguments import parse
from gpudash.feed.history import KeptHistory
from gpudash.feed.recording.segments import Folder
from gpudash.fleet.demo import PRICES
from gpudash.fleet.report import steady_minute
from gpudash.model import report, wire
from gpudash.model.errors import ExitStatus, GpudashError, UsageError
from gpudash.model.fleet import FleetDevice, FleetHost
from gpudash.model.report import Grouping, Minute, Report, ReportFinding, ReportRow, encode_minute
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import SafeText
from gpudash.output.report import render
from tests.e2e import far_ssh
from tests.factories import (
    GIB,
    gpu_uuid,
    make_device,
    make_host,
    make_process,
    make_process_device,
    make_snapshot,
)
from tests.feed.clock import Clock
from tests.feed.test_past import Served
from tests.fleet.used import UsedHost

START = datetime(2026, 11, 2, 9, 0, tzinfo=timezone.utc)


def sample(seconds: float, *users: str) -> Snapshot:
    """A host of two GPUs, on both of which these users compute, and one of them idle."""
    return make_snapshot(
        taken_at=START + timedelta(seconds=seconds),
        host=make_host(hostname="node1", uptime_seconds=1e6 + seconds),
        topology=None,
        devices=(
            make_device(status="busy" if users else "free"),
            make_device(index=1, status="held-idle" if users else "free"),
        ),
        processes=tuple(
            make_process(
                pid=pid,
                username=SafeText(user),
                devices=(make_process_device(), make_process_device(index=1)),
            )
            for pid, user in enumerate(users)
        ),
    )


def recorded(folder: Path, samples: Iterable[Snapshot]) -> Path:
    file = folder / "one.jsonl"
    file.write_bytes(b"".join(wire.encode(each) + b"\n" for each in samples))
    return file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Ann, alone for ten minutes; nothing for an hour; Ann and Bob for ten minutes more."""
    alone = (sample(seconds, "ann") for seconds in range(0, 601, 10))
    both = (sample(seconds, "ann", "bob") for seconds in range(4200, 4801, 10))
    return recorded(tmp_path, [*alone, *both])


def run(capfd: pytest.CaptureFixture[str], *words: str) -> Report:
    options = parse(["report", "--json", *words])
    assert options.run(options) == ExitStatus.OK
    return report.decode(capfd.readouterr().out.encode())


def by_user(found: Report) -> dict[str | None, ReportRow]:
    return {row.user: row for row in found.rows}


def test_a_recording_is_reported_as_a_whole_without_its_gap(
    file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    found = run(capfd, f"--replay={file}")
    assert (found.since, found.until) == (START, START + timedelta(seconds=4800))
    assert [(host.name, host.seen_seconds) for host in found.hosts] == [("node1", 1200)]
    users = by_user(found)
    assert list(users) == ["ann", "bob"]
    assert (users["ann"].held_seconds, users["ann"].idle_seconds) == (2400, 1200)
    assert (users["bob"].held_seconds, users["bob"].share_seconds) == (1200, 600)


@pytest.mark.parametrize(
    ("words", "seen", "held"),
    [
        (["--since=5m"], 300, {"ann": 600, "bob": 600}),
        (["--at=+10m"], 600, {"ann": 1200}),
        (["--since=5m", "--at=+10m"], 300, {"ann": 600}),
        (["--since=2026-11-02T10:00:00Z"], 600, {"ann": 1200, "bob": 1200}),
    ],
)
def test_a_part_of_it_is_between_two_instants(
    file: Path,
    capfd: pytest.CaptureFixture[str],
    words: list[str],
    seen: float,
    held: dict[str, float],
) -> None:
    found = run(capfd, f"--replay={file}", *words)
    assert found.hosts[0].seen_seconds == seen
    assert {row.user: row.held_seconds for row in found.rows} == held


def test_it_is_by_device_and_by_host(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    gpus = run(capfd, f"--replay={file}", "--by=gpu").rows
    assert [(row.host, row.gpu, row.idle_seconds) for row in gpus] == [
        ("node1", "0", 0),
        ("node1", "1", 1200),
    ]
    [host] = run(capfd, f"--replay={file}", "--by=host").rows
    assert (host.held_seconds, host.seen_seconds, host.peak_memory_bytes) == (2400, 2400, 80 << 30)


def test_people_read_hours_and_csv_has_the_fields(
    file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options = parse(["report", f"--replay={file}"])
    assert options.run(options) == ExitStatus.OK
    lines = capfd.readouterr().out.splitlines()
    assert "seen 20m00s of 1h20m" in lines[0]
    assert lines[1] == "GPUs held 40m00s of 40m00s seen"
    assert lines[4].split()[:4] == ["ann", "40m00s", "30m00s", "20m00s"]
    options = parse(["report", f"--replay={file}", "--format=csv"])
    options.run(options)
    heading, first, _ = (line.split(",") for line in capfd.readouterr().out.splitlines())
    cells = dict(zip(heading, first, strict=True))
    assert (cells["by"], cells["user"], cells["held_seconds"]) == ("user", "ann", "2400.0")


def test_costs_are_those_of_the_settings(
    file: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(file.parent))
    settings = file.parent / "gpudash" / "config.toml"
    settings.parent.mkdir()
    settings.write_text("[fleet]\nprices = { H100 = 3.0 }\n")
    assert by_user(run(capfd, f"--replay={file}"))["bob"].cost == 0.5
    assert by_user(run(capfd, f"--replay={file}", "--no-config"))["bob"].cost is None


def kept(folder: Path) -> Path:
    """A history of three times ten minutes, of the first without numbers."""
    clock = Clock()
    for hour, numbers in ((0, None), (1, Minutes(10)), (2, Minutes(10))):
        history = KeptHistory(
            str(folder), 1e6, 10**8, lambda _message: None, numbers=numbers, clock=clock
        )
        for seconds in range(0, 600, 10):
            taken = sample(hour * 3600 + seconds, "ann", *["bob"] * (hour == 2))
            history.take(taken, wire.encode(taken))
            clock.now += 10
        history.close()
    return folder


@pytest.mark.parametrize("lost", [None, "00000002", "00000003"])
def test_a_history_is_reported_from_its_numbers_and_from_samples_where_there_are_none(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], lost: str | None
) -> None:
    folder = kept(tmp_path / "history")
    for file in folder.glob(f"{lost}-*.numbers.*"):
        file.unlink()
    found = run(capfd, f"--replay={folder}")
    assert found.hosts[0].seen_seconds == 3 * 590
    assert {row.user: row.held_seconds for row in found.rows} == {"ann": 3540, "bob": 1180}


def test_damage_is_reported_and_what_can_be_read_counts(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = kept(tmp_path / "history")
    samples, numbers = min(folder.glob("00000001-*")), min(folder.glob("00000003-*.numbers.*"))
    for file in (samples, numbers):
        file.write_bytes(b"\xff" * 500)
    options = parse(["report", "--json", f"--replay={folder}"])
    assert options.run(options) == ExitStatus.OK
    out, error = capfd.readouterr()
    assert [line.split()[1] for line in error.splitlines()] == [samples.name, numbers.name]
    found = report.decode(out.encode())
    assert by_user(found)["bob"].held_seconds == 1180
    assert str(found.hosts[0].note).startswith(f"{samples.name} is damaged")


def test_where_nothing_was_seen_it_is_said_what_there_is(
    file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options = parse(["report", f"--replay={file}", "--since=10m", "--at=+30m"])
    assert options.run(options) == ExitStatus.OK
    error = capfd.readouterr().err
    assert "nothing was seen in that time: there are samples of 2026-11-02 " in error


def test_a_minute_that_lasted_for_ages_is_left_out(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "history"
    history = Folder(str(folder), 10**8)
    for at, has_numbers in ((0, False), (60, True), (120, True)):
        taken = sample(at, "ann")
        minute = Minute(
            taken_at=taken.taken_at, host=taken.host.hostname, seconds=1e11 if at < 99 else 60
        )
        line = encode_minute(minute) if has_numbers else wire.encode(taken)
        history.write(line, taken.taken_at, [60], has_numbers=has_numbers)
    history.close()
    assert run(capfd, f"--replay={folder}").hosts[0].seen_seconds == 60


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--since=never"], "is not a time"),
        (["--since=2027-01-01"], "outside|not before"),
        (["--at=+9h"], "outside"),
        (["--json", "--format=csv"], "--format does not go with --json"),
    ],
)
def test_mistakes_are_usage_errors(file: Path, words: list[str], message: str) -> None:
    options = parse(["report", f"--replay={file}", *words])
    with pytest.raises(UsageError, match=message):
        options.run(options)


def test_simulated_hosts_report_their_past_at_prices(capfd: pytest.CaptureFixture[str]) -> None:
    found = run(capfd, "--no-config", "--demo=fleet-16x8", "--since=1h", "--by=host")
    costs = [row.held_seconds / 3600 * PRICES["H100"] for row in found.rows]
    assert [row.cost for row in found.rows] == pytest.approx(costs, abs=1e-4)
    assert (len(costs), max(costs)) == (16, 8 * PRICES["H100"])


def test_hosts_report_by_themselves_and_who_fails_is_named(
    file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = run(capfd, f"--replay={file}", "--by=gpu")
    folder = tmp_path / "ssh"
    folder.mkdir()
    monkeypatch.setenv("PATH", far_ssh.install(folder)["PATH"])
    hosts = tuple(replace(each, note=SafeText("x is damaged")) for each in found.hosts)
    (folder / "answer").write_bytes(msgspec.json.encode(replace(found, hosts=hosts)))
    script = f'#!/bin/sh\necho "$@" >> {folder}/words\necho Welcome\ncat {folder}/answer\n'
    (folder / "far" / "gpudash").write_text(script)
    options = parse(["report", "--json", "--by=gpu", "--host=lab[1-2],down", "--since=2d"])
    assert options.run(options) == ExitStatus.UNAVAILABLE
    out, error = capfd.readouterr()
    merged = report.decode(out.encode())
    assert [(row.host, row.gpu, row.held_seconds) for row in merged.rows] == [
        (host, gpu, 1200) for host in ("lab1", "lab2") for gpu in ("0", "1")
    ]
    assert [(host.name, host.seen_seconds) for host in merged.hosts] == [
        ("down", 0),
        ("lab1", 1200),
        ("lab2", 1200),
    ]
    assert error.splitlines() == [
        "gpudash: lab1: x is damaged",
        "gpudash: lab2: x is damaged",
        "gpudash: down: ssh: connect to host down port 22: Connection refused",
    ]
    words = (folder / "words").read_text().splitlines()
    assert words == ["report --json --by gpu --since 172800s"] * 2
    options = parse(["report", "--host=down,denied"])
    with pytest.raises(GpudashError, match="Connection refused") as raised:
        options.run(options)
    assert "denied: eve@denied: Permission denied" in str(raised.value)
    (folder / "answer").write_bytes(b'{"report":1}')
    options = parse(["report", "--host=lab1"])
    with pytest.raises(GpudashError, match="lab1: not a gpudash report"):
        options.run(options)


def test_a_host_that_lies_has_rows_of_its_own_alone() -> None:
    lie = Report(
        taken_at=START,
        by="gpu",
        since=START,
        until=START,
        rows=(
            ReportRow(host=SafeText("lab2"), gpu=SafeText("0"), held_seconds=1e18, energy_mj=1e18),
            ReportRow(gpu=SafeText("1")),
        ),
        findings=tuple(
            ReportFinding(
                rule=SafeText("power-capped"),
                level="warn",
                host=SafeText("lab2"),
                gpu=SafeText(gpu),
                seconds=60.0,
            )
            for gpu in ("0", "1", "9" * 5000)
        ),
    )
    sums = ReportSums("gpu")
    for _ in range(2):
        sums.merge(lie, SafeText("lab1"))
    found = sums.report(START, START, START, lambda _name: None)
    assert [(row.host, row.gpu) for row in found.rows] == [("lab1", "0"), ("lab1", "1")]
    assert "power-capped  lab1  0-1,99" in render(found)
    assert report.decode(msgspec.json.encode(found)).rows[0].held_seconds == 1e18


def test_without_a_source_it_is_the_history_of_the_service(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, path, now = tmp_path / "history", tmp_path / "socket", datetime.now(timezone.utc)
    history = KeptHistory(str(folder), 1e6, 10**8, lambda _message: None, numbers=Minutes(60))
    for minutes in range(60, -1, -1):
        taken = replace(sample(-60.0 * minutes, "ann"), taken_at=now - timedelta(minutes=minutes))
        history.take(taken, wire.encode(taken))
    history.close()
    monkeypatch.setenv("GPUDASH_SOCKET", str(path))
    served = Served(path, folder)
    try:
        found = run(capfd, "--since=30m", "--by=host")
    finally:
        served.close()
    assert found.until - found.since == timedelta(minutes=30)
    assert found.hosts[0].seen_seconds in (1740, 1800)


@pytest.mark.parametrize("verb", ["report", "events"])
def test_without_a_service_there_is_a_message(monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    monkeypatch.setenv("GPUDASH_SOCKET", "/nowhere/socket")
    options = parse([verb])
    with pytest.raises(GpudashError, match=r"no history of this host: .*gpudash serve"):
        options.run(options)


IDENTITIES = {
    "user": attrgetter("user"),
    "job": attrgetter("user", "job"),
    "gpu": attrgetter("uuid"),
    "host": attrgetter("host"),
}
SUMS = ("held_seconds", "share_seconds", "idle_seconds", "unknown_seconds", "energy_mj")


def test_a_report_is_what_a_host_was_used_for() -> None:
    """With a gap, shared GPUs, one that is divided, and a process on eight."""
    interval, host = 20.0, UsedHost(gpus=9, tasks=12, hours=6, gap=(3 * 3600.0, 4 * 3600.0))
    added = Minutes(interval)
    minutes = [added.add(each) for each in host.samples(interval)]
    for by in get_args(Grouping):
        sums = ReportSums(by)
        for minute in (*minutes, added.end()):
            if minute is not None:
                sums.add(minute)
        found = sums.report(START, START, START, lambda _name: None)
        rows = {IDENTITIES[by](row): row for row in found.rows}
        assert set(rows) == set(host.truth[by])
        for key, truth in host.truth[by].items():
            for name in SUMS:
                # Tasks begin and end between samples: a time without a break is known to one.
                periods = host.rows[by][key].periods
                near = interval * periods.get(name, periods["held_seconds"])
                near *= 1e6 if name == "energy_mj" else 1
                have, want = getattr(rows[key], name) or 0, truth.get(name, 0)
                assert have == pytest.approx(want, abs=near), (key, name)
            assert rows[key].peak_memory_bytes == truth["peak_memory_bytes"]


@pytest.mark.parametrize(
    ("percent", "rested", "memory", "jobs", "held", "idle", "unknown"),
    [
        pytest.param(0, 3600, GIB, ("7",), 60, 60, 0, id="idle"),
        pytest.param(0, 200, GIB, ("7",), 60, 0, 0, id="pauses"),
        pytest.param(0.5, 3600, GIB, ("7",), 60, 60, 0, id="idle-to-the-percent"),
        pytest.param(None, None, GIB, ("7",), 60, 0, 60, id="not-known"),
        pytest.param(80, None, 0, (), 60, 0, 0, id="busy-for-no-known-user"),
        pytest.param(0, 3600, 0, (), 0, 0, 0, id="free"),
    ],
)
def test_what_stays_the_same_has_the_words_of_its_status(
    percent: float | None,
    rested: float | None,
    memory: int,
    jobs: Sequence[str],
    held: float,
    idle: float,
    unknown: float,
) -> None:
    gpu = FleetDevice(
        index=0,
        uuid=gpu_uuid(0),
        gpu_utilization_percent=percent,
        idle_seconds=rested,
        memory_used_bytes=memory,
        memory_total_bytes=80 * GIB,
        job=next(map(SafeText, jobs), None),
    )
    minute = steady_minute(FleetHost(name=SafeText("node1"), devices=(gpu,)), 60, START)
    (of_gpu,) = minute.devices
    assert (of_gpu.held_seconds, of_gpu.idle_seconds, of_gpu.unknown_seconds) == (
        held,
        idle,
        unknown,
    )
    found = [(use.held_seconds, use.idle_seconds, use.unknown_seconds) for use in minute.jobs]
    assert found == ([(held, idle, unknown)] if held else [])
