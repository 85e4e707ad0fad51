"""Reports of hosts from a real Prometheus: what GPUs were used for, beside the truth."""

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpudash.cli.arguments import parse
from gpudash.fleet.prometheus.endpoint import Endpoint
from gpudash.fleet.prometheus.source import PrometheusSource
from gpudash.model import report
from gpudash.model.errors import ExitStatus, UsageError
from gpudash.model.report import Report
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import clean
from gpudash.output.prometheus import render
from tests.factories import GIB, make_device, make_process, make_process_device, make_snapshot
from tests.fleet.rig.prometheus import importing
from tests.fleet.used import HOUR, START, UsedHost

Reported = Callable[..., Report]

_LINE = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")
_READ = re.compile(
    "DCGM_FI_DEV_(GPU_UTIL|FB_USED|TOTAL_ENERGY)|"
    "gpudash_(finding|gpu_|user_|sm_active|memory_used|total_energy)"
)
_STEP, _LOOK = 60.0, 60.0
"""Seconds between two scrapes, and between two steps at which the past is looked at."""


def scraped(sample: Snapshot, names: re.Pattern[str] = _READ, **more: str) -> Iterator[str]:
    """What a scrape of our exporter gives, as Prometheus keeps it."""
    at = sample.taken_at.timestamp()
    labels = {"instance": "box:9836", "job": "gpudash", **more}
    target = ",".join(f'{name}="{value}"' for name, value in labels.items())
    for found in filter(None, map(_LINE.fullmatch, render(sample).splitlines())):
        name, own, value = found.groups()
        if names.match(name):
            yield f"{name}{{{own + ',' if own else ''}{target}}} {value} {at:.3f}\n"


def with_instances(sample: Snapshot) -> Snapshot:
    """The same with the numbers that instances have."""
    numbered = (
        replace(each, gpu_instance_id=each.index + 1) if each.is_mig else each
        for each in sample.devices
    )
    return replace(sample, devices=tuple(numbered))


def with_display(sample: Snapshot) -> Snapshot:
    """The same with a desktop on the first GPU, which holds nothing."""
    gpu = sample.devices[0]
    share = make_process_device(uuid=gpu.uuid, type="G", used_gpu_memory_bytes=100 << 20)
    display = make_process(pid=7, username=clean("gdm"), devices=(share,), job=None)
    return replace(sample, processes=(*sample.processes, display))


@pytest.fixture
def reported(capfd: pytest.CaptureFixture[str]) -> Reported:
    """What a command reports of a server."""

    def run(url: str, by: str, hours: float) -> Report:
        until = (START + timedelta(hours=hours)).isoformat()
        words = ("--by", by, "--since", f"{hours:g}h", "--at", until, "--no-config")
        options = parse(["report", "--json", f"--prometheus={url}", *words])
        assert options.run(options) == ExitStatus.OK
        return report.decode(capfd.readouterr().out.encode())

    return run


def test_what_our_exporter_has_told_is_reported_as_it_was(
    tmp_path: Path, reported: Reported
) -> None:
    """With a gap, a desktop, shared GPUs, a process on several, and one divided into instances."""
    host = UsedHost(4, 12, 6, (2.5 * HOUR, 3.5 * HOUR))

    def lines() -> Iterator[str]:
        for sample in host.samples(_STEP):
            yield from scraped(with_display(with_instances(sample)))
        yield "# EOF\n"

    with importing(tmp_path, lines()) as url:
        for by, key in (("user", "user"), ("gpu", "uuid"), ("host", "host")):
            found = reported(url, by, 6)
            (seen,) = found.hosts
            assert seen.seen_seconds == pytest.approx(5 * HOUR, abs=2 * _STEP)
            _, (begin, end) = host.hot
            (hot,) = found.findings
            assert (hot.rule, hot.level, hot.gpu) == ("simulated", "warn", "0")
            watched = end - begin - (host.gap[1] - host.gap[0])
            assert hot.seconds == pytest.approx(watched, abs=4 * _LOOK)
            rows = {getattr(row, key): row for row in found.rows}
            truth = host.truth[by]
            # Instances are in the row of their GPU.
            assert rows.keys() == {name for name in truth if not str(name).startswith("MIG")}
            for name, row in rows.items():
                for column in ("held", "share", "idle", "unknown"):
                    value, told = truth[name].get(f"{column}_seconds", 0.0), f"{column}_seconds"
                    # A time without a break is known to a step at either end.
                    periods = host.rows[by][name].periods
                    near = 2 * _LOOK * periods["held_seconds" if column == "share" else told]
                    assert getattr(row, told) == pytest.approx(value, abs=near), (name, column)
                peak = truth[name]["peak_memory_bytes"]
                assert row.peak_memory_bytes == pytest.approx(peak, rel=0.001)
                if by != "user":
                    assert row.energy_mj == pytest.approx(truth[name]["energy_mj"], rel=0.01)


def held(at: float, **values: object) -> Snapshot:
    """A host of one GPU, so many seconds after the start."""
    device = make_device(memory_used_bytes=0, total_energy_mj=int(1e6 + 100e3 * at), **values)
    taken_at = START + timedelta(seconds=at)
    return make_snapshot(taken_at=taken_at, devices=(device,), processes=())


def test_jobs_are_those_of_the_labels_of_dcgm(tmp_path: Path, reported: Reported) -> None:
    """Slurm's job computes half of its hour; half an hour after it something holds the GPU."""

    def lines() -> Iterator[str]:
        for at in range(0, int(2 * HOUR) + 1, 30):
            does = at <= HOUR / 2
            memory = 4 * GIB if does or at > 1.5 * HOUR else 0
            percent = 80 if does else 0
            sample = held(at, gpu_utilization_percent=percent)
            device = replace(sample.devices[0], memory_used_bytes=memory)
            job: dict[str, str] = {"hpc_job": "42"} if at <= HOUR else {}
            dcgm = re.compile("DCGM_FI_DEV_(GPU_UTIL|FB_USED|TOTAL_ENERGY)")
            yield from scraped(replace(sample, devices=(device,)), dcgm, **job)
        yield "# EOF\n"

    with importing(tmp_path, lines()) as url:
        row, other = reported(url, "job", 2).rows
        assert (row.user, row.job) == (None, "42")
        assert row.held_seconds == pytest.approx(HOUR, abs=90)
        assert row.idle_seconds == pytest.approx(HOUR / 2 - 300, abs=90)
        assert row.energy_mj == pytest.approx(100e3 * HOUR, rel=0.02)
        assert (other.user, other.job) == (None, None)
        assert other.held_seconds == pytest.approx(HOUR / 2, abs=90)
        assert other.energy_mj == pytest.approx(100e3 * HOUR / 2, rel=0.05)
        (gpu,) = reported(url, "gpu", 2).rows
        assert gpu.energy_mj == pytest.approx(100e3 * 2 * HOUR, rel=0.02)
        assert gpu.seen_seconds == pytest.approx(2 * HOUR, abs=90)


def test_the_memory_of_jobs_one_after_the_other_is_no_sum(
    tmp_path: Path, reported: Reported
) -> None:
    def lines() -> Iterator[str]:
        dcgm = re.compile("DCGM_FI_DEV_(GPU_UTIL|FB_USED)")
        for at in range(0, int(2 * HOUR), 60):
            is_held, job = at % 1200 < 600, at // 1200
            board = make_device(memory_used_bytes=(4 + job) * GIB if is_held else 0)
            sample = replace(held(at), devices=(board,))
            yield from scraped(sample, dcgm, **({"hpc_job": f"4{job}"} if is_held else {}))
        yield "# EOF\n"

    with importing(tmp_path, lines()) as url:
        rows = reported(url, "job", 2).rows
        jobs = {row.job: row.peak_memory_bytes for row in rows if row.job}
        truth = {f"4{number}": (4 + number) * GIB for number in range(6)}
        assert jobs == pytest.approx(truth, rel=0.001)
        (user,) = reported(url, "user", 2).rows
        assert user.peak_memory_bytes == pytest.approx(9 * GIB, rel=0.001)


@pytest.mark.parametrize("clusters", [("east", "west"), ("east",)])
def test_a_number_that_two_clusters_have_is_two_jobs_of_unknown_owners(
    tmp_path: Path, reported: Reported, clusters: tuple[str, ...]
) -> None:
    """Whose the jobs are that a scheduler knows: it is that of one of them."""

    def lines() -> Iterator[str]:
        dcgm = re.compile("DCGM_FI_DEV_(GPU_UTIL|FB_USED)")
        for hours, cluster in zip((2, 1), clusters, strict=False):
            target = {"cluster": cluster, "hpc_job": "42", "instance": f"{cluster}:9400"}
            for at in range(0, int(hours * HOUR) + 1, 60):
                board = make_device(memory_used_bytes=4 * GIB, uuid=f"GPU-{cluster}")
                sample = replace(held(at), devices=(board,))
                yield from scraped(sample, dcgm, **target)
        yield "# EOF\n"

    with importing(tmp_path, lines()) as url:
        count = len(clusters)
        rows = reported(url, "job", 2).rows
        assert [(each.cluster, each.job) for each in rows] == [(each, "42") for each in clusters]
        assert [round(each.held_seconds / HOUR, 1) for each in rows] == [2.0, 1.0][:count]
        (user,) = reported(url, "user", 2).rows
        assert (user.cluster, round(user.held_seconds / HOUR, 1)) == (None, sum((2, 1)[:count]))
        source = PrometheusSource(Endpoint(url=url))
        span = START, START + timedelta(hours=2)
        minutes = source.minutes(*span, {"42": clean("carol")}, by_host=False)
        source.close(10)
        owner = "carol" if count == 1 else None
        assert {use.user for minute in minutes for use in minute.jobs} == {owner}


def test_what_two_servers_know_counts_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A pair, one of which was down for an hour, and a host of that name somewhere else."""

    def lines(hours: Iterable[int], uuid: str, job: str) -> Iterator[str]:
        dcgm = re.compile("DCGM_FI_DEV_(GPU_UTIL|FB_USED)")
        for at in range(0, int(4 * HOUR) + 1, 60):
            if at // HOUR in hours:
                board = make_device(memory_used_bytes=4 * GIB, uuid=uuid)
                sample = replace(held(at), devices=(board,))
                yield from scraped(sample, dcgm, hpc_job=job)
        yield "# EOF\n"

    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
    until = (START + timedelta(hours=4)).isoformat()
    with (
        importing(folders[0], lines((0, 2, 3), "GPU-a", "7")) as first,
        importing(folders[1], lines((0, 1, 2, 3), "GPU-a", "7")) as second,
        importing(folders[2], lines((0, 1), "GPU-z", "8")) as other,
    ):
        servers = [f"--prometheus={url}" for url in (first, second, other)]
        words = ["report", "--json", *servers, "--by", "job", "--since=4h", "--at", until]
        options = parse([*words, "--no-config"])
        assert options.run(options) == ExitStatus.OK
    rows = report.decode(capfd.readouterr().out.encode()).rows
    found = {row.job: round(row.held_seconds / HOUR, 1) for row in rows}
    assert found == {"7": pytest.approx(4, abs=0.1), "8": pytest.approx(2, abs=0.1)}


def test_a_server_without_gpus_has_no_rows(tmp_path: Path, reported: Reported) -> None:
    other = f'up{{job="x"}} 1 {START.timestamp():.3f}\n# EOF\n'
    with importing(tmp_path, [other]) as url:
        assert reported(url, "user", 1).rows == ()


def test_one_source_of_the_past_is_asked() -> None:
    options = parse(["report", "--prometheus=http://127.0.0.1:9", "--host=lab7"])
    with pytest.raises(UsageError, match="--prometheus does not go with --host"):
        options.run(options)


@pytest.mark.parametrize("overlap_seconds", [0, int(HOUR)], ids=["one by one", "both at once"])
def test_a_gpu_was_held_under_all_names_of_its_host_and_metrics(
    tmp_path: Path, reported: Reported, overlap_seconds: int
) -> None:
    """An exporter that was upgraded, or two of one host: nothing is left out or counted twice."""

    def lines() -> Iterator[str]:
        for at in range(0, int(4 * HOUR) + 1, 30):
            moment = START.timestamp() + at
            for name, label, seconds in (
                ("DCGM_FI_DEV_GPU_UTIL", "Hostname", range(int(HOUR) + overlap_seconds)),
                ("DCGM_FI_DEV_GPU_UTIL_RATIO", "hostname", range(int(HOUR), int(4 * HOUR) + 1)),
            ):
                if at in seconds:
                    own = f'gpu="0",UUID="GPU-0",hpc_job="7",{label}="n1"'
                    yield f'{name}{{{own},instance="n1:9400",job="d"}} 1 {moment}\n'
        yield "# EOF\n"

    with importing(tmp_path, lines()) as url:
        for by in ("gpu", "job"):
            (row,) = reported(url, by, 4).rows
            assert row.held_seconds == pytest.approx(4 * HOUR, abs=4 * _LOOK)
            assert row.share_seconds == pytest.approx(4 * HOUR, abs=4 * _LOOK)


@pytest.mark.parametrize("seconds", [(60, 60, 5), (30, 240, 30), (60, 5, 200)])
def test_a_gpu_was_held_however_often_it_was_scraped_in_a_part_of_the_span(
    tmp_path: Path, reported: Reported, seconds: tuple[int, ...]
) -> None:
    """For some hours at each of these intervals, at the end of a week."""
    week, hours = 7 * 24, (5, 3, 1)

    def lines() -> Iterator[str]:
        at = (week - sum(hours)) * HOUR + 37
        for count, interval in zip(hours, seconds, strict=True):
            for _ in range(0, int(count * HOUR), interval):
                own = 'gpu="0",UUID="GPU-0",hpc_job="7",Hostname="n1",instance="n1:9400",job="d"'
                yield f"DCGM_FI_DEV_GPU_UTIL{{{own}}} 90 {START.timestamp() + at}\n"
                at += interval
        yield "# EOF\n"

    with importing(tmp_path, lines()) as url:
        for span in (week, week - 0.5):
            (row,) = reported(url, "job", span).rows
            held = (sum(hours) - (week - span)) * HOUR
            assert row.held_seconds == pytest.approx(held, abs=300)


@pytest.mark.parametrize("ours", [False, True], ids=["dcgm", "gpudash"])
def test_gpus_that_had_one_index_after_each_other_are_two(
    tmp_path: Path, reported: Reported, *, ours: bool
) -> None:
    """One is lost after an hour, and that behind it moves up; the counters are far apart."""
    boards = {name: 10 ** (9 + number) for number, name in enumerate("abc")}
    names = re.compile("gpudash_" if ours else "DCGM_FI_DEV_(GPU_UTIL|FB_USED|TOTAL_ENERGY)")

    def lines() -> Iterator[str]:
        for at in range(0, int(4 * HOUR) + 1, 30):
            there = "abc" if at < HOUR else "ac"
            devices = tuple(
                make_device(
                    index=index,
                    uuid=f"GPU-{name}",
                    memory_used_bytes=4 * GIB,
                    total_energy_mj=int(boards[name] + 100e3 * at),
                )
                for index, name in enumerate(there)
            )
            sample = make_snapshot(
                taken_at=START + timedelta(seconds=at), devices=devices, processes=()
            )
            yield from scraped(sample, names, **({} if ours else {"hpc_job": "7"}))
        yield "# EOF\n"

    with importing(tmp_path, lines()) as url:
        rows = {row.uuid: row for row in reported(url, "gpu", 4).rows}
    assert rows.keys() == {"GPU-a", "GPU-b", "GPU-c"}
    for uuid, row in rows.items():
        hours = 1 if uuid == "GPU-b" else 4
        assert row.seen_seconds == pytest.approx(hours * HOUR, abs=4 * _LOOK)
        assert row.energy_mj == pytest.approx(100e3 * hours * HOUR, rel=0.05)
        if not ours:
            assert row.held_seconds == pytest.approx(hours * HOUR, abs=4 * _LOOK)


def test_what_a_gpu_did_is_known_by_what_its_exporter_has_of_it(
    tmp_path: Path, reported: Reported
) -> None:
    """Of one the utilization, of one that of its engine instead; each rests for half of it."""
    names = {
        "n1": ("DEV_GPU_UTIL", "PROF_GR_ENGINE_ACTIVE", "DEV_FB_USED"),
        "n2": ("PROF_GR_ENGINE_ACTIVE", "DEV_FB_USED"),
        "n3": ("DEV_FB_USED",),
    }

    def lines() -> Iterator[str]:
        for at in range(0, int(2 * HOUR) + 1, 30):
            moment = START.timestamp() + at
            for host, own in names.items():
                # An engine may be idle for a moment in which kernels ran.
                values = {"DEV_FB_USED": 40_000, "DEV_GPU_UTIL": 50 if at < HOUR else 0}
                values["PROF_GR_ENGINE_ACTIVE"] = int(at < HOUR and host == "n2")
                labels = f'gpu="0",UUID="GPU-{host}",Hostname="{host}",instance="{host}:1",job="d"'
                for name in own:
                    yield f"DCGM_FI_{name}{{{labels}}} {values[name]} {moment}\n"
        yield "# EOF\n"

    with importing(tmp_path, lines()) as url:
        rows = {row.host: row for row in reported(url, "host", 2).rows}
    for host, row in rows.items():
        assert row.held_seconds == pytest.approx(2 * HOUR, abs=2 * _LOOK)
        idle, unknown = (0, 2 * HOUR) if host == "n3" else (HOUR - 300, 0)
        assert row.idle_seconds == pytest.approx(idle, abs=2 * _LOOK)
        assert row.unknown_seconds == pytest.approx(unknown, abs=2 * _LOOK)
    assert len(rows) == 3
