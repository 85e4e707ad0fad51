"""What happened in a day that a real Prometheus knows: all of it, and nothing else."""

import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from gpudash.cli.arguments import parse
from gpudash.fleet.events import EXCHANGED, events
from gpudash.fleet.prometheus.endpoint import Endpoint
from gpudash.fleet.prometheus.source import PrometheusSource
from gpudash.model.errors import ExitStatus, GpudashError
from gpudash.model.fleet import FleetRequest
from tests.fleet.rig.day import SECONDS, Day
from tests.fleet.rig.faults import faulty
from tests.fleet.rig.prometheus import importing
from tests.fleet.rig.reading import read_until

_AWAY_SECONDS = 150.0
"""By how much the time of an event may be off: a step, and what a step looks back."""


@pytest.fixture(scope="module")
def day() -> Day:
    return Day(float(int(time.time()) - SECONDS) // 60 * 60)


@pytest.fixture(scope="module")
def url(day: Day, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with importing(tmp_path_factory.mktemp("prometheus"), day.lines()) as url:
        yield url


def found(url: str, capfd: pytest.CaptureFixture[str], *words: str) -> list[dict[str, object]]:
    options = parse(["events", f"--prometheus={url}", "--json", "--since=24h", *words])
    assert options.run(options) == 0
    events: list[dict[str, object]] = json.loads(capfd.readouterr().out)
    return events


def test_a_server_that_is_down_hides_nothing_of_another_and_is_named(
    url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    known = found(url, capfd, "--since=4h")
    assert known
    away = "http://127.0.0.1:9"
    words = ["--json", "--since=4h", f"--prometheus={away}"]
    options = parse(["events", f"--prometheus={url}", *words])
    assert options.run(options) == ExitStatus.UNAVAILABLE
    out, err = capfd.readouterr()
    assert len(json.loads(out)) == len(known)
    assert f"gpudash: {away}: " in err
    options = parse(["events", *words])
    with pytest.raises(GpudashError, match=away):
        options.run(options)


def test_a_span_that_is_mostly_before_the_data_is_looked_at_as_closely(
    url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    seen = [
        {
            (each["kind"], each["host"], each["gpu"], each["job"])
            for each in found(url, capfd, since)
        }
        for since in ("--since=25h", "--since=100d", "--since=2020-01-01")
    ]
    assert len(seen[0]) > 50
    assert seen[1] == seen[2] == seen[0]


def test_finds_all_that_happened_and_invents_nothing(
    day: Day, url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    missing = list(day.happened)
    assert len(missing) > 100
    invented = []
    for event in found(url, capfd):
        at = time.mktime(time.strptime(str(event["at"])[:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
        gpu = None if event["gpu"] is None else int(str(event["gpu"]))
        named = event["kind"], None if str(event["kind"]).startswith("job") else event["host"], gpu
        is_of_job = str(event["kind"]).startswith("job")
        match = [
            each
            for each in missing
            if (each.kind, each.host, each.gpu) == named
            and (each.job == event["job"] or not is_of_job)
            and each.xid in (None, event["xid"])
            and 0 <= at - each.at <= float(str(event["within_seconds"]))
        ]
        if match:
            missing.remove(match[0])
        else:
            invented.append(event)
    late = day.start + SECONDS - 3 * _AWAY_SECONDS
    assert [each for each in missing if each.at < late] == []
    assert invented == []


def test_a_span_that_begins_before_the_data_says_from_when_on_there_are_some(
    day: Day, url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    for since, is_before in (("3d", True), ("4h", False)):
        options = parse(["events", f"--prometheus={url}", f"--since={since}"])
        assert options.run(options) == ExitStatus.OK
        said = capfd.readouterr().err
        assert (f"gpudash: {url}: no data before " in said) is is_before
        if is_before:
            begins = time.mktime(time.strptime(said.strip()[-16:], "%Y-%m-%d %H:%M"))
            assert abs(begins - day.start) <= 2 * _AWAY_SECONDS


def test_a_filter_and_an_end_leave_out_the_rest(
    day: Day, url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    xids = found(url, capfd, "--filter=kind:xid")
    assert len(xids) == 12
    host = str(xids[0]["host"])
    assert {each["host"] for each in found(url, capfd, f"--filter=host:{host}")} <= {host, None}
    assert not [
        each for each in found(url, capfd, "--at=-12h") if str(each["at"]) > str(xids[-1]["at"])
    ]


def test_a_time_without_data_is_an_error(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(GpudashError, match="no data"):
        found(url, capfd, "--at=-30h", "--since=1h")


def once(url: str, capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    options = parse([f"--prometheus={url}", *words])
    status = options.run(options)
    return status, capfd.readouterr().out


def test_an_instant_of_the_past_is_printed_as_the_present_is(
    day: Day, url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    down = [each for each in day.happened if each.kind == "host-down"][-1]
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(down.at + 400))
    for words in (["--json"], ["--once", "--json"]):
        status, out = once(url, capfd, *words, f"--at={at}")
        document = json.loads(out)
        assert status == 0
        assert {e["name"]: e["state"] for e in document["hosts"] if e["state"] != "ok"} == {
            down.host: "down"
        }


def test_a_time_before_the_data_names_when_they_begin(
    day: Day, url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    status, out = once(url, capfd, "--once", "--at=-30h", "--json")
    assert status != 0
    [source] = json.loads(out)["sources"]
    begins = source["message"].removeprefix("has no data before ")
    assert abs(time.mktime(time.strptime(begins, "%Y-%m-%d %H:%M")) - day.start) <= 120


def test_a_screen_gets_what_happened_beside_the_present(day: Day, url: str) -> None:
    source = PrometheusSource(Endpoint(url=url))
    since = datetime.fromtimestamp(day.start, timezone.utc)
    assert source.read().events is None
    source.ask(FleetRequest(events_since=since))
    told = read_until(source, lambda reading: reading.events is not None).events
    begins = []
    for days in (1, 3):
        source.ask(FleetRequest(events_since=since - timedelta(days=days)))
        reading = read_until(source, lambda reading: reading.events is not None)
        begins.append(reading.report.data_since)
    source.close(10)
    assert all(each and abs(each - since).total_seconds() <= 4 * _AWAY_SECONDS for each in begins)
    assert told is not None
    kinds = Counter(each.kind for each in told)
    lost = {(e.host, e.gpu) for e in told if e.kind == "gpu-lost"}
    assert lost == {(e.host, str(e.gpu)) for e in day.happened if e.kind == "gpu-lost"}, kinds


def test_a_screen_gets_what_happened_around_an_instant(day: Day, url: str) -> None:
    source = PrometheusSource(Endpoint(url=url))
    event = next(each for each in day.happened if each.kind == "gpu-lost")
    at = datetime.fromtimestamp(event.at, timezone.utc)
    half = timedelta(minutes=30)
    found = {}
    for then in (at, at - 3 * half, at):
        source.ask(FleetRequest(events_since=then - half, events_until=then + half))
        assert source.read().events is None
        told = read_until(source, lambda reading: reading.events is not None).events or ()
        assert all(each.at <= then + half for each in told)
        found[then] = [
            each for each in told if (each.host, each.gpu) == (event.host, str(event.gpu))
        ]
    source.close(10)
    (lost,) = (each for each in found[at] if each.kind == "gpu-lost")
    assert abs((lost.at - at).total_seconds()) <= 180
    assert not found[at - 3 * half]


def test_what_happened_just_before_a_screen_asked_is_known_some_time_later(tmp_path: Path) -> None:
    """The server has two pasts: that when it was asked, and that of some minutes later."""
    now, urls = int(time.time()), []
    with ExitStack() as stack:
        for name, lost_at in (("first", now - 25), ("later", now - 300)):
            folder = tmp_path / name
            folder.mkdir()
            lines = [
                f"{_gpu('n1', gpu)} 50 {at}\n"
                for at in range(now - 5400, now, 15)
                for gpu in (0, 1)
                if gpu == 0 or at < lost_at
            ]
            urls.append(stack.enter_context(importing(folder, [*lines, "# EOF\n"])))
        server = stack.enter_context(faulty(urls[0]))
        source = PrometheusSource(Endpoint(url=server.url), interval_seconds=0.1)
        source.ask(FleetRequest(events_since=datetime.fromtimestamp(now - 5000, timezone.utc)))
        assert read_until(source, lambda reading: reading.events is not None).events == ()
        server.upstream = urls[1]
        told = read_until(source, lambda reading: bool(reading.events)).events or ()
        assert [(each.kind, each.host, each.gpu) for each in told] == [("gpu-lost", "n1", "1")]
        source.close(10)


def _with_a_gap(start: float, gap: range, down: range) -> Iterator[str]:
    """Yield an hour and a half of three hosts, of which one is not there after the gap.

    The first answers while it is down, without its GPU.
    """
    for number in range(3):
        labels = f'instance="node{number}:9400",job="dcgm-exporter"'
        gpu = f'gpu="0",UUID="GPU-{number}",Hostname="node{number}",hpc_job="7",{labels}'
        for at in range(number, 5400, 15):
            if at in gap or (number == 2 and at >= gap.stop):
                continue
            yield f"up{{{labels}}} {int(at not in down or not number)} {start + at}\n"
            if at not in down:
                yield f"DCGM_FI_DEV_GPU_UTIL{{{gpu}}} 90 {start + at}\n"
                yield f"DCGM_FI_DEV_XID_ERRORS{{{gpu}}} 31 {start + at}\n"
    yield "# EOF\n"


def test_a_server_that_was_away_itself_had_no_host_down(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    start = float(int(time.time()) - 5400) // 60 * 60
    gap, down = range(1200, 2400), range(3600, 4200)
    with importing(tmp_path, _with_a_gap(start, gap, down)) as url:
        known = found(url, capfd)
    told = [(each["kind"], each["host"]) for each in known]
    why = {each["host"]: each["what"] for each in known if each["kind"] == "host-down"}
    assert why["node0"] == "answers and sees no GPU: it had 1 GPU"
    assert why["node1"] == "cannot be reached: its series have ended"
    assert sorted(told) == [
        ("host-down", "node0"),
        ("host-down", "node1"),
        ("host-down", "node2"),
        ("host-up", "node0"),
        ("host-up", "node1"),
    ]
    # What went while the server was away may have done so at any time of that.
    (gone,) = (each for each in known if each["host"] == "node2")
    at = datetime.fromisoformat(str(gone["at"]).replace("Z", "+00:00")).timestamp() - start
    assert gap.stop <= at <= gap.stop + _AWAY_SECONDS
    assert gap.start - _AWAY_SECONDS <= at - float(str(gone["within_seconds"])) <= gap.start


def test_nothing_has_happened_after_the_present_of_the_server(tmp_path: Path) -> None:
    now = float(int(time.time()))
    lines = _with_a_gap(now - 5280, range(0), range(0))
    with importing(tmp_path, (line for line in lines if not line.startswith("up"))) as url:
        source = PrometheusSource(Endpoint(url=url))
        since, late = (datetime.fromtimestamp(now + s, timezone.utc) for s in (-3600, 3600))
        assert list(events(source.past(since, late))) == []
        source.close(10)


def _of_other_names(start: float) -> Iterator[str]:
    """Yield six hours in which GPUs and hosts get other names, and are scraped more often."""

    def lines(host: str, address: str, at: int, gpus: list[str], xid: int = 0) -> Iterator[str]:
        target = f'instance="{address}:9400",job="dcgm-exporter"'
        for number, board in enumerate(gpus):
            labels = f'gpu="{number}",UUID="GPU-{host[0]}{board[0]}",Hostname="{host}",{target}'
            labels += f',GPU_I_ID="{board[1]}"' if board[1:] else ""
            name = "PROF_GR_ENGINE_ACTIVE" if board[1:] else "DEV_GPU_UTIL"
            yield f"DCGM_FI_{name}{{{labels}}} 0.5 {start + at}\n"
            yield f"DCGM_FI_DEV_XID_ERRORS{{{labels}}} {xid} {start + at}\n"

    for at in range(0, 6 * 3600, 15):
        yield from lines("mig", "m", at, ["a"] if at < 9000 else ["a7"])
        yield from lines("numbered", "n", at, list("abcd" if at < 12_000 else "abd"))
        yield from lines(*(("old", "o") if at < 1500 else ("ox", "p")), at, ["a"])
        if at > 10_000 or at % 120 == 0:
            yield from lines("slow", "s", at, ["a"], 79 if at > 4000 else 0)
        # Of the first of two GPUs the exporter does not have the utilization.
        target = 'instance="smi:9835",job="nvidia_gpu_exporter"'
        first, second = (f'uuid="{board}",{target}}}' for board in "fs")
        yield f'nvidia_smi_gpu_info{{index="0",{first} 1 {start + at}\n'
        yield f'nvidia_smi_gpu_info{{index="1",{second} 1 {start + at}\n'
        yield f"nvidia_smi_utilization_gpu_ratio{{{second} 0.5 {start + at}\n"
        if at > 12_600:
            last = f'nvidia_smi_xid_last_timestamp_seconds{{xid="48",{first} {start + 12_600}'
            yield f"{last} {start + at}\n"
    yield "# EOF\n"


def test_other_names_and_other_intervals_are_no_events(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    start = float(int(time.time()) - 6 * 3600) // 60 * 60 + 37
    with importing(tmp_path, _of_other_names(start)) as url:
        told = [(each["kind"], each["host"], each["gpu"]) for each in found(url, capfd)]
    assert told == [
        ("xid", "slow", "0"),
        ("gpu-lost", "numbered", "2"),
        ("renumbered", "numbered", None),
        ("xid", "smi", "0"),
    ]


@pytest.mark.parametrize(("begin", "end"), [(0, 2700), (11_400, 13_700)])
def test_exporters_that_were_scraped_more_rarely_for_a_while_were_there(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], begin: int, end: int
) -> None:
    start = float(int(time.time()) - 18_000) // 60 * 60
    times = [*range(0, begin, 15), *range(begin, end, 240), *range(end, 18_000, 15)]
    labels = 'instance="node0:9400",job="dcgm-exporter"'
    gpu = f'gpu="0",UUID="GPU-0",Hostname="node0",{labels}'
    lines = [f"DCGM_FI_DEV_GPU_UTIL{{{gpu}}} 90 {start + at}\n" for at in times]
    with importing(tmp_path, [*lines, "# EOF\n"]) as url:
        assert found(url, capfd, "--since=295m") == []


def _gpu(
    host: str, gpu: int, card: object = None, *, name: str = "DEV_GPU_UTIL", label: str = "Hostname"
) -> str:
    """Return a series of DCGM's exporter without its value; `label` names the host."""
    board = f'gpu="{gpu}",UUID="GPU-{host}{gpu if card is None else card}",{label}="{host}"'
    return f'DCGM_FI_{name}{{{board},instance="{host}:9400",job="dcgm-exporter"}}'


def told_of(
    folder: Path, capfd: pytest.CaptureFixture[str], lines: Iterable[str], *words: str
) -> list[tuple[object, ...]]:
    """Return the kind, host, GPU and job of what is found in a past."""
    with importing(folder, [*lines, "# EOF\n"]) as url:
        known = found(url, capfd, *words)
    return [(each["kind"], each["host"], each["gpu"], each["job"]) for each in known]


def test_a_gpu_that_is_divided_for_a_while_is_not_lost(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    start = int(time.time()) - 5 * 3600
    lines = []
    for at in range(0, 5 * 3600, 30):
        is_divided = 6000 <= at < 9000
        part = _gpu("n1", 0, name="PROF_GR_ENGINE_ACTIVE").replace("{", '{GPU_I_ID="7",')
        first = part if is_divided else _gpu("n1", 0)
        lines += [f"{each} 0.5 {start + at}\n" for each in (first, _gpu("n1", 1))]
    assert told_of(tmp_path, capfd, lines) == []


def test_an_exporter_that_renames_metrics_and_labels_changes_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its newest version says of the GPU of the second host what the old one said."""
    start = int(time.time()) - 5 * 3600
    lines = []
    for at in range(0, 5 * 3600, 30):
        names = ("DEV_GPU_UTIL", "DEV_XID_ERRORS", "Hostname")
        if at >= 9000:
            names = ("DEV_GPU_UTIL_RATIO", "DEV_XID_ERROR", "hostname")
        for host in ("n1", "n2"):
            util, error = (_gpu(host, 0, name=name, label=names[2]) for name in names[:2])
            xid = 63 if host == "n2" and at >= 4000 else 0
            lines += [f"{util} 1 {start + at}\n", f"{error} {xid} {start + at}\n"]
    with importing(tmp_path, [*lines, "# EOF\n"]) as url:
        (xid,) = found(url, capfd)
    assert (xid["kind"], xid["host"], xid["xid"]) == ("xid", "n2", 63)
    at = datetime.fromisoformat(str(xid["at"]).replace("Z", "+00:00")).timestamp()
    assert at == pytest.approx(start + 4000, abs=_AWAY_SECONDS)


@pytest.mark.parametrize("instances", [("", ""), ("7", "8")])
def test_each_of_the_jobs_on_one_gpu_begins_and_ends_for_itself(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], instances: tuple[str, str]
) -> None:
    start = int(time.time()) - 5 * 3600
    name = "PROF_GR_ENGINE_ACTIVE" if instances[0] else "DEV_GPU_UTIL"
    lines = []
    for at in range(0, 5 * 3600, 30):
        for job, instance in zip("78", instances, strict=True):
            own = f'{{GPU_I_ID="{instance}",'
            own += f'hpc_job="{job}",' if job == "8" or at < 9000 else ""
            lines += [f"{_gpu('n1', 0, name=name).replace('{', own)} 1 {start + at}\n"]
        lines += [f"{_gpu('n1', 1)} 1 {start + at}\n"]
    assert told_of(tmp_path, capfd, lines) == [("job-ended", "n1", None, "7")]


def test_hosts_whose_exporters_show_no_utilization_any_more_are_there(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    start = int(time.time()) - 5 * 3600
    lines = []
    for at in range(0, 5 * 3600 + 60, 30):
        for host, gpu in (("n1", 0), ("n1", 1), ("n2", 0)):
            if (host, gpu) == ("n1", 1) and at >= 12000:
                continue
            names = ("DEV_FB_USED", "DEV_GPU_UTIL") if at < 9000 else ("DEV_FB_USED",)
            lines += [f"{_gpu(host, gpu, name=name)} 1 {start + at}\n" for name in names]
    with importing(tmp_path, [*lines, "# EOF\n"]) as url:
        (lost,) = found(url, capfd)
        _, shown = once(url, capfd, "--once", "--json")
    assert (lost["kind"], lost["host"], lost["gpu"]) == ("gpu-lost", "n1", "1")
    states = {
        each["name"]: [d["state"] for d in each["devices"]] for each in json.loads(shown)["hosts"]
    }
    assert states == {"n1": ["ok", "lost"], "n2": ["ok"]}


def _started_anew(start: int, cards: str, named: int = 0) -> Iterator[str]:
    """Yield four hours of two hosts, one of which loses a GPU and then starts twice.

    `cards` are its GPUs after the second start, by the letters of their UUIDs, which its exporter
    has from an instant on.
    """
    for at in range(0, 4 * 3600, 15):
        yield f"{_gpu('other', 0)} 0.5 {start + at}\n"
        there = "abcd" if at < 3600 else "ab d" if at < 6000 else "abd" if at < 9600 else cards
        if not (6000 <= at < 6600 or 9000 <= at < 9600):
            for index, card in enumerate(there.ljust(4)):
                series = _gpu("n1", index, card)
                if at < named:
                    series = series.replace(f',UUID="GPU-n1{card}"', "")
                yield f"{series} 50 {start + at}\n" if card != " " else ""


@pytest.mark.parametrize(
    ("cards", "told", "hours"),
    [
        ("abd", [], 2.7),
        ("abdc", [("gpu-returned", "3", "is back"), ("renumbered", None, "3 was 2")], 1.3),
        (
            "abed",
            [("renumbered", None, "3 was 2"), ("gpu-returned", "2", EXCHANGED)],
            1.3,
        ),
    ],
    ids=["missed", "back", "exchanged"],
)
def test_gpus_go_by_their_uuids_whatever_their_indices(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    cards: str,
    told: list[tuple[str, str | None, str]],
    hours: float,
) -> None:
    start = int(time.time()) // 60 * 60 - 4 * 3600
    with importing(tmp_path, [*_started_anew(start, cards), "# EOF\n"]) as url:
        known = found(url, capfd)
        options = parse(["events", f"--prometheus={url}", "--since=24h"])
        assert options.run(options) == ExitStatus.OK
    lost = re.search(
        r"GPU-h down or lost: 1 host [0-9.]+, 1 GPU ([0-9.]+)\n", capfd.readouterr().out
    )
    assert float(lost[1]) == pytest.approx(hours, abs=0.11)
    what = [
        (each["kind"], each["gpu"], str(each["what"]).rpartition(": ")[2])
        for each in known
        if not str(each["kind"]).startswith("host")
    ]
    assert what == [("gpu-lost", "2", "fell off the bus"), ("renumbered", None, "2 was 3"), *told]
    assert known[0]["uuid"] == "GPU-n1c"


def test_an_index_is_that_of_the_gpu_whose_uuid_is_known_there_next(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """An exporter has UUIDs since it was upgraded, after a loss and before the next start."""
    start = int(time.time()) // 60 * 60 - 4 * 3600
    told = told_of(tmp_path, capfd, _started_anew(start, "abd", named=4800))
    assert [each[:3] for each in told if each[0] not in ("host-down", "host-up")] == [
        ("gpu-lost", "n1", "2"),
        ("renumbered", "n1", None),
    ]


def test_a_gpu_that_is_exchanged_at_once_is_that_which_is_gone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """What two servers have seen of it is one event."""
    start = int(time.time()) // 60 * 60 - 3600
    lines = []
    for at in range(start, start + 3600, 15):
        boards = ["a", "b", "c" if at < start + 1800 else "z"]
        for index, board in enumerate(boards):
            lines.append(f"{_gpu('n1', index, board)} 90 {at}\n")
    with importing(tmp_path, [*lines, "# EOF\n"]) as url:
        (exchanged,) = found(url, capfd, f"--prometheus={url.replace('127.0.0.1', 'localhost')}")
    assert (exchanged["kind"], exchanged["gpu"]) == ("gpu-returned", "2")
    assert exchanged["what"] == "was exchanged for another GPU"


def test_a_job_that_ended_before_the_span_does_not_begin_in_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    since = int(time.time()) // 60 * 60 - 3600
    lines = []
    for at in range(since - 3600, since + 3600, 15):
        job = "old" if at < since - 80 else "another" if (at - since) % 1800 > 900 else ""
        of_job = _gpu("n1", 0).replace("{", f'{{hpc_job="{job}",')
        lines.append(f"{of_job} 90 {at}\n")
    clock = time.strftime("%Y-%m-%dT%H:%M", time.localtime(since))
    told = told_of(tmp_path, capfd, lines, f"--since={clock}")
    assert {job for _, _, _, job in told} == {"another"}


def test_a_host_whose_target_has_gone_does_not_answer(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    now = int(time.time())
    lines = []
    for at in range(now - 5400, now, 15):
        for host in ("n1", "n2"):
            if host == "n1" or at < now - 3000:
                up = f'up{{instance="{host}:9400",job="dcgm-exporter"}}'
                lines += [f"{up} 1 {at}\n", f"{_gpu(host, 0)} 90 {at}\n"]
    with importing(tmp_path, [*lines, "# EOF\n"]) as url:
        (down,) = found(url, capfd)
    assert (down["host"], down["what"]) == ("n2", "cannot be reached: its series have ended")
