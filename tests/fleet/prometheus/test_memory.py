"""What was there yesterday is missed today, by a gpudash that has just been started."""

import math
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpudash.fleet.collector import merge
from gpudash.fleet.prometheus.endpoint import Endpoint
from gpudash.fleet.prometheus.source import PrometheusSource
from gpudash.fleet.reduce import Reducer
from gpudash.fleet.source import Reading
from gpudash.model.fleet import ChartRequest, FleetHost, FleetRequest, FleetSnapshot
from gpudash.model.snapshot import Finding
from tests.fleet.rig.exporters import Gpu, Host, line, samples
from tests.fleet.rig.prometheus import Server, importing, past
from tests.fleet.rig.reading import read_until

MINUTE, HOUR = 60.0, 3600.0
STEP = 60.0
LATE = 3 * STEP
"""How far a time may be off: samples, and the answers of the test itself."""
LONG_AGO, PAST = 5 * HOUR, 9.5 * HOUR

HELD = (Gpu(0, "held-idle"), Gpu(1, xid=79, xid_seconds=80 * MINUTE))
AWAY = ((8 * HOUR, 7 * HOUR), (4 * HOUR, 3 * HOUR))
FLAPS = tuple((first * MINUTE, first * MINUTE - 15 * MINUTE) for first in (180, 140, 100, 60))
"""The last of them ended long before the start."""
BACK = Gpu(0, xid=79, xid_seconds=3 * HOUR, away=((2.8 * HOUR, 2.5 * HOUR),))

HOSTS = (
    Host("lost80", gpus=(Gpu(0), Gpu(1, "lost", lost_seconds=80 * MINUTE))),
    Host("lost5", gpus=(Gpu(0), Gpu(1, "lost", lost_seconds=LONG_AGO))),
    Host("xid80", gpus=(Gpu(0, xid=79, xid_seconds=80 * MINUTE), Gpu(1, xid=79), Gpu(2))),
    Host("user80", gpus=(Gpu(0, xid=31, xid_seconds=80 * MINUTE), Gpu(1))),
    Host("down3", is_down=True, down_seconds=3 * HOUR),
    Host("frozen2", is_frozen=True, down_seconds=2 * HOUR),
    Host("na", gpus=HELD, ended_seconds=20 * MINUTE),
    Host("nb", gpus=HELD, began_seconds=20 * MINUTE, board="na"),
    Host("blind2", gpus=(Gpu(0, "lost"), Gpu(1, "lost"))),
    Host("held5", gpus=(Gpu(0, "fresh-job", fresh_seconds=LONG_AGO), Gpu(1, "held-idle"))),
    Host(
        "given5",
        gpus=(
            Gpu(0, "unopened", fresh_seconds=LONG_AGO),
            Gpu(1, "unopened", fresh_seconds=40 * MINUTE),
            Gpu(2, "allocated-unused"),
        ),
    ),
    Host("again3", gpus=(BACK, Gpu(1, "lost", lost_seconds=80 * MINUTE, away=AWAY))),
    Host("fine1"),
    Host("flaps4", gpus=(Gpu(0), Gpu(1, away=FLAPS), Gpu(2, away=FLAPS[:2]))),
    Host("reboots4", away=FLAPS),
    Host("reboots2", away=FLAPS[:2]),
    Host(
        "new40", gpus=(Gpu(0), Gpu(1, "lost", lost_seconds=8 * MINUTE)), began_seconds=40 * MINUTE
    ),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with past(tmp_path_factory.mktemp("prometheus"), HOSTS, PAST, STEP) as running:
        yield running


def read(server: Server, **settings: float) -> Reading:
    """Return all that is known a moment after the start."""
    source = PrometheusSource(Endpoint(url=server.url, **settings))
    reading = read_until(source, lambda reading: reading.is_whole)
    source.close(10)
    assert not reading.report.warnings
    return reading


@pytest.fixture(scope="module")
def whole(server: Server) -> Reading:
    return read(server)


@pytest.fixture(scope="module")
def judged(whole: Reading) -> FleetSnapshot:
    return Reducer().reduce(merge([whole]))


def host_of(reading: Reading, name: str) -> FleetHost:
    (found,) = (each for each in reading.hosts if each.name == name)
    return found


def finding(snapshot: FleetSnapshot, rule: str) -> Finding:
    (found,) = (each for each in snapshot.findings if each.rule == rule)
    return found


@pytest.mark.parametrize(("name", "index", "seconds"), [
    ("lost80", 1, 80 * MINUTE),
    ("lost5", 1, LONG_AGO),
    ("new40", 1, 8 * MINUTE),
])  # fmt: skip
def test_a_gpu_is_missed_since_its_last_sample(
    whole: Reading, name: str, index: int, seconds: float
) -> None:
    host = host_of(whole, name)
    assert (host.state, host.expected_devices) == ("ok", index + 1)
    lost = host.devices[index]
    assert (lost.state, lost.index) == ("lost", index)
    assert lost.uuid == f"GPU-{name}-{index}"
    assert lost.age_seconds == pytest.approx(seconds, abs=LATE)


def test_a_gpu_that_is_lost_for_the_third_time_in_a_day_is_found(
    whole: Reading, judged: FleetSnapshot
) -> None:
    assert [each.losses for each in host_of(whole, "again3").devices] == [1, 3]
    found = finding(judged, "gpus-flapping")
    assert (found.level, found.uuids) == ("critical", ("GPU-again3-1", "GPU-flaps4-1"))
    assert "again3 GPU 1" in found.sentence
    assert "up to 4 times" in found.sentence


def test_a_gpu_that_came_back_each_time_before_the_start_has_been_lost_as_often(
    whole: Reading,
) -> None:
    assert [each.losses for each in host_of(whole, "flaps4").devices] == [None, 4, 2]
    assert {each.losses for each in host_of(whole, "reboots4").devices} == {None}


def test_a_host_that_went_away_again_and_again_before_the_start_is_found(
    whole: Reading, judged: FleetSnapshot
) -> None:
    """Not one whose GPUs alone did, nor one that was down twice."""
    hosts = ("reboots4", "reboots2", "flaps4", "fine1")
    assert [host_of(whole, each).losses for each in hosts] == [4, None, None, None]
    found = finding(judged, "host-flapping")
    assert (found.level, found.hosts, found.uuids) == ("warn", ("reboots4",), ())
    assert "4 times" in found.sentence


def test_an_error_that_needs_a_person_is_known_of_a_gpu_that_came_back(whole: Reading) -> None:
    """It has none any more, and since when it had it is not known."""
    back = host_of(whole, "again3").devices[0]
    assert (back.xid, back.xid_seconds) == (79, None)


def test_a_gpu_is_held_idle_since_its_job_began(whole: Reading) -> None:
    """One was so at the first sample already: before, nothing is known."""
    first, second = host_of(whole, "held5").devices
    assert first.idle_seconds == pytest.approx(LONG_AGO, abs=2 * 300 + LATE)
    assert second.idle_seconds == pytest.approx(PAST, abs=2 * 300 + LATE)


def test_of_a_rest_longer_than_is_looked_back_it_is_not_known_since_when(server: Server) -> None:
    found = read(server, look_back_days=6 * HOUR / 86400)
    assert host_of(found, "held5").devices[1].idle_seconds == pytest.approx(6 * HOUR, abs=600)
    longer = {uuid for (rule, uuid), seconds in found.lasted.items() if seconds == math.inf}
    assert {"GPU-held5-1", "GPU-given5-2"} <= longer
    assert longer.isdisjoint(("GPU-held5-0", "GPU-given5-0", "GPU-given5-1"))


def test_a_gpu_that_nothing_uses_is_held_idle_since_its_job_began(whole: Reading) -> None:
    """It was free before; a job that was there at the first sample has had it for as long."""
    found = [each.idle_seconds for each in host_of(whole, "given5").devices]
    spans = (LONG_AGO, 40 * MINUTE, PAST)
    assert found == [pytest.approx(seconds, abs=2 * 300 + LATE) for seconds in spans]


def test_a_host_is_missed_since_its_last_sample(whole: Reading) -> None:
    host = host_of(whole, "down3")
    assert (host.state, host.expected_devices) == ("down", 2)
    assert host.age_seconds == pytest.approx(3 * HOUR, abs=LATE)


def test_an_xid_error_that_needs_a_person_is_recent_for_a_day(whole: Reading) -> None:
    """Of what came before the first sample it is not known when; a user's is his own."""
    devices = host_of(whole, "xid80").devices
    assert [each.xid for each in devices] == [79, 79, None]
    assert devices[1].xid_seconds is None
    assert devices[0].xid_seconds == pytest.approx(80 * MINUTE, abs=LATE)
    assert {each.xid for each in host_of(whole, "user80").devices} == {None}


@pytest.mark.parametrize(
    ("rule", "seconds"),
    [
        ("gpus-lost", LONG_AGO),
        ("xid-critical", 80 * MINUTE),
        ("host-down", 3 * HOUR),
        ("host-stale", 2 * HOUR),
    ],
)
def test_a_finding_has_lasted_since_it_happened(
    judged: FleetSnapshot, rule: str, seconds: float
) -> None:
    assert finding(judged, rule).held_seconds == pytest.approx(seconds, abs=LATE)


def test_what_is_older_than_the_look_back_is_forgotten(server: Server) -> None:
    reading = read(server, look_back_days=0.1)
    assert host_of(reading, "lost5").expected_devices == 1
    assert host_of(reading, "lost80").devices[1].state == "lost"


def test_a_host_whose_gpus_live_on_under_another_name_is_one(
    whole: Reading, judged: FleetSnapshot
) -> None:
    assert "na" not in [each.name for each in whole.hosts]
    host = host_of(whole, "nb")
    assert (host.state, host.expected_devices, host.former_name) == ("ok", 2, "na")
    assert (host.devices[0].idle_seconds or 0) >= HOUR
    assert (host.devices[1].xid, finding(judged, "host-renamed").hosts) == (79, ("nb",))
    assert "na is now nb" in finding(judged, "host-renamed").sentence


def test_the_past_of_a_host_is_that_of_all_of_its_names(server: Server) -> None:
    source = PrometheusSource(Endpoint(url=server.url))
    request = ChartRequest(metric="memory_used_bytes", hosts=("nb",), by_device=True)
    source.ask(FleetRequest(charts=(request,)))
    read_until(source, lambda reading: reading.is_whole)
    # What was asked for before it was known is asked for again.
    source.ask(FleetRequest())
    source.ask(FleetRequest(charts=(request,)))
    reading = read_until(source, lambda reading: bool(reading.charts))
    source.close(10)
    [chart] = reading.charts
    assert [line.index for line in chart.lines] == [0, 1]
    assert all(sum(value is None for value in line.values) < 5 for line in chart.lines)


def test_an_exporter_without_a_gpu_answers_and_misses_all(
    whole: Reading, judged: FleetSnapshot
) -> None:
    host = host_of(whole, "blind2")
    assert (host.state, host.expected_devices) == ("no-gpus", 2)
    assert [each.state for each in host.devices] == ["lost", "lost"]
    found = finding(judged, "host-no-gpus")
    assert (found.level, found.sentence) == (
        "critical",
        "blind2 answers and sees no GPU: it had 2 GPUs",
    )
    assert found.held_seconds == pytest.approx(15 * MINUTE, abs=LATE)


@pytest.mark.parametrize("dialect", ["dcgm", "dcgm49", "smi"])
def test_a_gpu_is_missed_whose_index_another_has_since_the_last_start(
    tmp_path: Path, dialect: str
) -> None:
    """It was lost five hours ago, and its host started an hour ago."""
    now, target = time.time(), {"job": "x", "instance": "a:9400", "node": "a"}
    spans = (
        (PAST, LONG_AGO, (0, 1, 2, 3), (0, 1, 2, 3)),
        (LONG_AGO, HOUR + 600, (0, 1, 3), (0, 1, 3)),
        (HOUR, 0.0, (0, 1, 3), (0, 1, 2)),
    )
    lines = []
    for first, last, cards, indices in spans:
        gpus = tuple(Gpu(n, card=card) for n, card in zip(indices, cards, strict=True))
        for ago in range(int(first), int(last), -int(STEP)):
            found = samples(Host("a", dialect, gpus), now - ago, now)
            lines += [line(name, {**labels, **target}, v, now - ago) for name, labels, v in found]
    with importing(tmp_path, [*lines, "# EOF\n"]) as url:
        (host,) = read(Server(url, now)).hosts
    assert [(each.index, each.uuid, each.state) for each in host.devices] == [
        (0, "GPU-a-0", "ok"),
        (1, "GPU-a-1", "ok"),
        (2, "GPU-a-3", "ok"),
        (2, "GPU-a-2", "lost"),
    ]
    assert host.expected_devices == 4
    assert host.devices[3].age_seconds == pytest.approx(LONG_AGO, abs=LATE)


@pytest.mark.parametrize(("before", "since"), [(15, 240), (15, 120), (240, 15)])
def test_a_host_is_as_patient_as_its_scrapes_are_rare_since_a_few_minutes(
    tmp_path: Path, before: int, since: int
) -> None:
    """They had another interval until six minutes ago, and the next one is due in a second."""
    now = int(time.time())
    times = [*range(now - 3600, now - 360, before), *range(now + 1 - since - 360, now, since)]
    lines = []
    for at in times:
        target = {"job": "dcgm-exporter", "instance": "a:9400"}
        lines.append(line("up", target, 1.0, at))
        found = samples(Host("a", "dcgm", (Gpu(0),)), at, now)
        lines += [line(name, {**labels, **target}, value, at) for name, labels, value in found]
    with importing(tmp_path, [*lines, "# EOF\n"]) as url:
        (host,) = read(Server(url, now)).hosts
    assert host.state == "ok"


def test_a_gpu_that_an_older_exporter_had_is_missed_by_a_newer_one(tmp_path: Path) -> None:
    """Its metrics and the label of its host have other names since then."""
    now = int(time.time())
    lines = []
    for at in range(now - 10 * 3600, now, 60):
        is_old, gpus = at < now - 2 * HOUR, range(2 if at < now - 5 * HOUR else 1)
        name, label = ("", "Hostname") if is_old else ("_RATIO", "hostname")
        for host in ("n1", "n2"):
            for gpu in gpus:
                board = f'gpu="{gpu}",UUID="GPU-{host}{gpu}",{label}="{host}"'
                target = f'instance="{host}:9400",job="dcgm-exporter"'
                lines.append(f"DCGM_FI_DEV_GPU_UTIL{name}{{{board},{target}}} 1 {at}\n")
    with importing(tmp_path, [*lines, "# EOF\n"]) as url:
        found = read(Server(url, now))
    for name in ("n1", "n2"):
        there, lost = host_of(found, name).devices
        assert (there.state, lost.state) == ("ok", "lost")
        assert lost.age_seconds == pytest.approx(5 * HOUR, abs=LATE)
