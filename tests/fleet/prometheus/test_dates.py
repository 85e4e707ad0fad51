"""Since when GPUs have been slow, hot or kept busy, as the past of a server tells."""

import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import unquote_plus

import pytest

from gpudash.cli.arguments import parse
from gpudash.fleet.lasting import Bound, Lasting
from gpudash.fleet.prometheus.endpoint import Endpoint
from gpudash.fleet.prometheus.source import PrometheusSource
from gpudash.model.fleet import FleetRequest, decode
from gpudash.model.snapshot import Finding
from gpudash.model.text import SafeText
from tests.fleet.rig.exporters import Sample, line
from tests.fleet.rig.faults import faulty
from tests.fleet.rig.prometheus import Server, importing
from tests.fleet.rig.reading import read_until

MINUTE, HOUR = 60.0, 3600.0
STEP, PAST, LASTS = 60.0, 6 * HOUR, 600.0
LATE = 6 * STEP
"""How far a time may be off: steps of a look back of a day."""
SLOW, HOT, KEPT = 3 * HOUR, 50 * MINUTE, 140 * MINUTE
_HOSTS, _GPUS = 10, 4
_STRAGGLER, _OVEN, _LOOP, _ALWAYS = (0, 1), (1, 2), (2, 3), (4, 0)
"""Host and GPU; the last is slow at the first sample already, and its host has a job of its own."""
_RENAMED, _UPGRADED, _TWICE, _UNREAD, _HELD = (5, 0), (6, 1), (7, 2), (8, 3), (9, 0)
"""Each slow in a job of its host: that has another name since `CHANGED`, a newer exporter, or a
second one since then, and of one some values were not there for a while. The last has been held
idle instead, and its host has another name, too."""
CHANGED = HOUR
_MAX_QUERY = 1 << 14
"""Bytes that VictoriaMetrics takes unless it is told otherwise."""


def _values(host: int, gpu: int, ago: float) -> dict[str, float]:
    place, values = (host, gpu), {"GPU_UTIL": 95.0, "SM_CLOCK": 1980.0, "GPU_TEMP": 62.0}
    work = {"TENSOR": 0.4, "DRAM": 0.3}
    if place in (_RENAMED, _UPGRADED, _TWICE, _UNREAD) and ago <= SLOW:
        values["SM_CLOCK"] = 1200.0
    if place == _HELD and ago <= SLOW:
        values["GPU_UTIL"] = 0.0
    if place == _UNREAD and 20 * MINUTE < ago < 30 * MINUTE:
        values["GPU_UTIL"] = -1.0
    if place == _STRAGGLER:
        # It was slow before, too, and fast, and did nothing for a moment.
        is_slow = ago <= SLOW or 4 * HOUR < ago < 5 * HOUR
        values["SM_CLOCK"] = 1200.0 if is_slow else 1980.0
    if place == _ALWAYS:
        values["SM_CLOCK"] = 1100.0
    if place == _OVEN and ago <= HOT:
        values["GPU_TEMP"] = 93.0
    if place == _LOOP and ago <= KEPT:
        values["GPU_UTIL"], work = 100.0, {"TENSOR": 0.001, "DRAM": 0.005}
    values["FB_USED"], values["POWER_USAGE"] = 60_000.0, 500.0 + ago % 97
    return {f"DEV_{name}": value for name, value in values.items()} | {
        "PROF_PIPE_TENSOR_ACTIVE": work["TENSOR"],
        "PROF_DRAM_ACTIVE": work["DRAM"],
    }


def _samples(host: int, gpu: int, ago: float) -> Iterator[Sample]:
    values, is_changed = _values(host, gpu, ago), ago < CHANGED
    name = f"n{host}" if is_changed or host not in (_RENAMED[0], _HELD[0]) else f"old{host}"
    labels = {
        "job": "dcgm-exporter",
        "instance": f"{name}:9400",
        "Hostname": name,
        "gpu": str(gpu),
        "UUID": f"GPU-{host}-{gpu}",
        "modelName": "H100",
        "hpc_job": f"{max(3, host)}" if host != _HELD[0] else "",
    }
    if is_changed and host == _UPGRADED[0]:
        labels["hostname"] = labels.pop("Hostname")
        yield "DCGM_FI_DEV_GPU_UTIL_RATIO", labels, values["DEV_GPU_UTIL"] / 100
        yield "DCGM_FI_DEV_SM_CLOCK_HERTZ", labels, values["DEV_SM_CLOCK"] * 1e6
        return
    for metric, value in values.items():
        yield f"DCGM_FI_{metric}", labels, value
    if is_changed and host == _TWICE[0]:
        labels = {"instance": f"{name}:8000", "hostname": name, "index": str(gpu)}
        labels |= {"uuid": f"GPU-{host}-{gpu}", "job": "nvitop-exporter", "devicename": "H100"}
        yield "gpu_utilization_Percentage", labels, values["DEV_GPU_UTIL"]
        yield "gpu_clock_sm_MHz", labels, values["DEV_SM_CLOCK"]


def _lines(now: float, past: float = PAST) -> Iterator[str]:
    for host in range(_HOSTS):
        for number in range(int(past // STEP), -int(LASTS // STEP), -1):
            at = now - number * STEP
            for gpu in range(_GPUS):
                for name, labels, value in _samples(host, gpu, now - at):
                    yield line(name, labels, value, at)
    yield "# EOF\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    now = float(int(time.time()))
    with importing(tmp_path_factory.mktemp("prometheus"), _lines(now)) as url:
        yield Server(url, now)


def _once(server: Server, capfd: pytest.CaptureFixture[str], *words: str) -> list[Finding]:
    waits = f"--prometheus={server.url}", "--timeout=60"
    options = parse([*waits, "--no-config", "--once", "--json", *words])
    options.run(options)
    return list(decode(capfd.readouterr().out.encode()).findings)


@pytest.mark.parametrize(
    ("rule", "place", "seconds"),
    [
        ("straggler", _STRAGGLER, SLOW),
        ("straggler", _ALWAYS, PAST),
        ("straggler", _RENAMED, SLOW),
        ("straggler", _UPGRADED, SLOW),
        ("straggler", _TWICE, SLOW),
        ("straggler", _UNREAD, SLOW),
        ("held-idle", _HELD, SLOW),
        ("hot-outlier", _OVEN, HOT),
        ("kept-alive", _LOOP, KEPT),
    ],
)
def test_a_finding_about_values_has_lasted_since_they_became_so(
    server: Server,
    rule: str,
    place: tuple[int, int],
    seconds: float,
    capfd: pytest.CaptureFixture[str],
) -> None:
    uuid = "GPU-{}-{}".format(*place)
    (found,) = (
        each for each in _once(server, capfd) if each.rule == rule and each.uuids == (uuid,)
    )
    assert found.held_seconds == pytest.approx(seconds, abs=LATE)


@pytest.mark.parametrize("is_first", [True, False])
def test_of_two_servers_that_counts_which_knows_the_longer_past(
    server: Server, is_first: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with importing(tmp_path, _lines(server.now, HOUR)) as young:
        urls = [young, server.url] if is_first else [server.url, young]
        words = *(f"--prometheus={each}" for each in urls), "--timeout=60"
        options = parse([*words, "--no-config", "--once", "--json"])
        options.run(options)
    findings = decode(capfd.readouterr().out.encode()).findings
    uuids = ("GPU-{}-{}".format(*_STRAGGLER),)
    (found,) = (each for each in findings if each.uuids == uuids)
    assert found.held_seconds == pytest.approx(SLOW, abs=LATE)


def test_an_instant_in_the_past_tells_for_how_long_it_was_so_then(
    server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    at = datetime.fromtimestamp(server.now - HOUR, timezone.utc)
    found = {each.rule: each for each in _once(server, capfd, "--at", at.isoformat())}
    assert "hot-outlier" not in found
    assert found["kept-alive"].held_seconds == pytest.approx(KEPT - HOUR, abs=LATE)


def test_what_is_found_is_asked_for_once_and_forgotten_with_the_finding(server: Server) -> None:
    source = PrometheusSource(Endpoint(url=server.url))
    read_until(source, lambda reading: reading.is_whole)
    uuid = SafeText("GPU-{}-{}".format(*_OVEN))
    hot = "hot-outlier", uuid
    unknown = "straggler", SafeText("GPU-of-another-source")
    wanted: Lasting = {
        hot: (Bound("temperature_celsius", 80.0),),
        unknown: (Bound("sm_clock_mhz", below=1500.0),),
    }
    assert source.date(wanted)
    seconds = read_until(source, lambda reading: hot in reading.lasted).lasted[hot]
    assert seconds == pytest.approx(HOT, abs=LATE)
    assert not source.date(wanted)
    assert not source.date({unknown: wanted[unknown]})
    assert not source.read().lasted
    assert source.date(wanted)
    source.close(10)


def test_what_is_found_of_many_gpus_is_dated_by_queries_that_all_servers_take(
    server: Server,
) -> None:
    places = [(host, gpu) for host in range(_HOSTS) for gpu in range(_GPUS)]
    uuids = [SafeText("GPU-{}-{}".format(*place)) for place in places if place[0] != _UPGRADED[0]]
    wanted: Lasting = {
        ("straggler", uuid): (Bound("sm_clock_mhz", below=2000.0 + number),)
        for number, uuid in enumerate(uuids)
    }
    with faulty(server.url) as proxy:
        source = PrometheusSource(Endpoint(url=proxy.url))
        read_until(source, lambda reading: reading.is_whole)
        proxy.seen.clear()
        read_until(source, lambda _: not source.date(wanted))
        assert source.read().lasted.keys() == wanted.keys()
        bodies = [unquote_plus(each.body) for each in proxy.seen]
        source.close(10)
    assert max(map(len, bodies)) < _MAX_QUERY


def test_what_no_value_shows_stays_without_a_date(server: Server) -> None:
    source = PrometheusSource(Endpoint(url=server.url))
    read_until(source, lambda reading: reading.is_whole)
    key = "straggler", SafeText("GPU-{}-{}".format(*_STRAGGLER))
    wanted: Lasting = {key: (Bound("memory_temperature_celsius", 90.0),)}
    assert source.date(wanted)
    read_until(source, lambda _: not source.date(wanted))
    assert not source.read().lasted
    source.close(10)


def test_a_first_picture_is_not_dated(server: Server) -> None:
    source = PrometheusSource(Endpoint(url=server.url))
    source.ask(FleetRequest(is_brief=True))
    read_until(source, lambda reading: reading.is_whole)
    key = "hot-outlier", SafeText("GPU-{}-{}".format(*_OVEN))
    assert not source.date({key: (Bound("temperature_celsius", 80.0),)})
    source.close(10)


def test_what_has_been_so_for_longer_than_is_looked_back_has_no_date(server: Server) -> None:
    source = PrometheusSource(Endpoint(url=server.url, look_back_days=2 * HOUR / 86400))
    read_until(source, lambda reading: reading.is_whole)
    hot = "hot-outlier", SafeText("GPU-{}-{}".format(*_OVEN))
    slow = "straggler", SafeText("GPU-{}-{}".format(*_STRAGGLER))
    wanted: Lasting = {
        hot: (Bound("temperature_celsius", 80.0),),
        slow: (Bound("sm_clock_mhz", below=1500.0),),
    }
    read_until(source, lambda _: not source.date(wanted))
    assert source.read().lasted.keys() & wanted.keys() == {hot}
    source.close(10)
