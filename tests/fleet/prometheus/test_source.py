"""A real Prometheus read to the end, compared with what its exporters' hosts really do."""

import re
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import partial
from math import inf
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from msgspec.structs import replace

from gpudash.cli.arguments import parse
from gpudash.config.settings import FleetSettings, Settings
from gpudash.fleet.collector import merge
from gpudash.fleet.prometheus.endpoint import Endpoint
from gpudash.fleet.prometheus.questions import questions
from gpudash.fleet.prometheus.source import PrometheusSource, opened
from gpudash.fleet.reduce import Reducer
from gpudash.fleet.source import Reading
from gpudash.model.errors import ExitStatus, UsageError
from gpudash.model.fleet import (
    ChartRequest,
    FleetDevice,
    FleetHost,
    FleetRequest,
)
from tests.fleet.rig.exporters import DOWN_SECONDS, FLEET, FRESH_SECONDS, Gpu, Host, page, uuid
from tests.fleet.rig.faults import Faulty, faulty
from tests.fleet.rig.prometheus import Server, past, scrape_config, serving
from tests.fleet.rig.reading import read_until

HOUR = 3600.0
_SCRAPED_SECONDS = 2.0
"""So rarely that how often a host is scraped is first asked when it has been scraped once.

A few scrapes look like few in twenty minutes, and a host is down when it has missed some of them.
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with past(tmp_path_factory.mktemp("prometheus"), FLEET) as running:
        yield running


@pytest.fixture(scope="module")
def whole(server: Server) -> Iterator[Reading]:
    """What is known once everything has been answered."""
    source = PrometheusSource(Endpoint(url=server.url))
    yield read_until(source, lambda reading: reading.is_whole)
    source.close(10)


@contextmanager
def behind(server: Server, **settings: float) -> Iterator[tuple[Faulty, PrometheusSource]]:
    """What may answer wrongly for a server, and a source that asks it."""
    with faulty(server.url) as proxy:
        source = PrometheusSource(Endpoint(url=proxy.url), **settings)
        yield proxy, source
        proxy.fault, proxy.holds = "", lambda _body: False
        source.close(10)


@pytest.mark.parametrize("fault", ["503", "html", "null", "empty"])
def test_a_fault_keeps_the_last_picture_until_it_is_over(server: Server, fault: str) -> None:
    with behind(server, interval_seconds=0.1) as (proxy, source):
        before = read_until(source, lambda reading: reading.is_whole)
        assert before.report.state == "ok"
        proxy.fault = fault
        during = read_until(source, lambda reading: reading.report.state == "stale")
        assert during.report.message
        assert [host.name for host in during.hosts] == [host.name for host in before.hosts]
        assert total_memory(during) == total_memory(before)
        proxy.fault = ""
        after = read_until(source, lambda reading: reading.report.state == "ok")
        assert after.report.message is None


@pytest.mark.parametrize(("fault", "seconds"), [("503", 60), ("reset", 30), ("429", 1000)])
def test_a_server_that_is_gone_is_soon_seen_to_be_back(fault: str, seconds: float) -> None:
    """However rarely it is asked; one that asks for fewer requests gets them."""
    with faulty() as proxy:
        proxy.fault = fault
        source = PrometheusSource(Endpoint(url=proxy.url), interval_seconds=1000)
        read_until(source, lambda reading: reading.report.state == "failed")
        assert seconds / 4 < source.due_in() <= seconds
        source.close(10)


def temperatures(reading: Reading) -> list[int | None]:
    return [device.temperature_celsius for host in reading.hosts for device in host.devices]


def test_a_field_that_no_host_has_any_more_stays_for_a_while_and_is_warned_of(
    server: Server,
) -> None:
    with behind(server, interval_seconds=0.1) as (proxy, source):
        before = read_until(source, lambda reading: reading.is_whole)
        proxy.fault = "empty=GPU_TEMP"
        during = read_until(source, lambda reading: bool(reading.report.warnings))
        assert during.report.warnings == (
            "temperature_celsius: answers without any series, of which there were some",
        )
        assert during.report.state == "ok"
        assert temperatures(during) == temperatures(before)
        proxy.fault = "503"
        gone = read_until(source, lambda reading: reading.report.state == "stale")
        assert gone.report.warnings == ()
        proxy.fault = ""
        read_until(source, lambda reading: not reading.report.warnings)


def test_it_says_so_while_something_has_not_been_answered(server: Server) -> None:
    source = PrometheusSource(Endpoint(url=server.url))
    assert read_until(source, lambda reading: bool(reading.hosts)).report.partial
    assert not read_until(source, lambda reading: reading.is_whole).report.partial
    source.close(10)


def test_a_server_that_never_answered_is_no_empty_fleet(server: Server) -> None:
    with faulty() as proxy:
        proxy.fault = "404"
        source = PrometheusSource(Endpoint(url=proxy.url + "/wrong"))
        assert source.read().report.state == "starting"
        reading = read_until(source, lambda reading: reading.report.state == "failed")
        assert "path" in (reading.report.message or "")
        proxy.fault = ""
        source.close(10)


def test_a_past_that_cannot_be_read_is_not_one_in_which_nothing_happened() -> None:
    with faulty() as proxy:
        proxy.fault = "404"
        source = PrometheusSource(Endpoint(url=proxy.url + "/wrong"))
        since = datetime.now(timezone.utc)
        source.ask(FleetRequest(events_since=since))
        reading = read_until(source, lambda reading: bool(reading.report.warnings))
        (warning,) = reading.report.warnings
        assert warning.startswith("events: ")
        proxy.fault = ""
        source.close(10)


def test_numbers_that_are_none_are_not_known(server: Server) -> None:
    with behind(server) as (proxy, source):
        proxy.fault = "numbers"
        reading = read_until(source, lambda reading: reading.is_whole)
        devices = [device for host in reading.hosts for device in host.devices]
        assert len(devices) > len(FLEET)
        assert {device.gpu_utilization_percent for device in devices} == {None}
        assert {device.memory_used_bytes for device in devices} == {None}
        assert any("impossible values" in text for text in reading.report.warnings)


def test_what_is_told_of_a_past_that_is_known_in_part_says_so(
    server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    with behind(server) as (proxy, _):
        for fault in ("", "partial"):
            proxy.fault = fault
            for verb in ("events", "report"):
                options = parse([verb, f"--prometheus={proxy.url}", "--since=1h"])
                assert options.run(options) == ExitStatus.OK
                said = capfd.readouterr().err
                assert ("answers in part: store-7 is unavailable" in said) == bool(fault)


def test_a_partial_answer_loses_nothing(server: Server) -> None:
    with behind(server, interval_seconds=0.1) as (proxy, source):
        before = read_until(source, lambda reading: reading.is_whole)
        proxy.fault = "partial"
        during = read_until(
            source, lambda reading: "store-7 is unavailable" in reading.report.warnings
        )
        read_until(source, lambda reading: any(each.age_seconds for each in devices(reading)))
        during = source.read()
        assert [host.state for host in during.hosts] == [host.state for host in before.hosts]
        states = [each.state for each in devices(before)]
        assert [each.state for each in devices(during)] == states


@pytest.mark.parametrize(("fault", "is_partial"), [("is-partial", True), ("infos", False)])
def test_what_stands_beside_the_data_may_mean_that_it_is_partial(
    server: Server, fault: str, is_partial: bool
) -> None:
    with behind(server) as (proxy, source):
        proxy.fault = fault
        reading = read_until(source, lambda reading: reading.is_whole)
        warnings = reading.report.warnings
        assert any("the answer is partial" in text for text in warnings) == is_partial
        assert bool(warnings) == is_partial


def test_idle_times_are_those_asked_for_where_a_server_rounds_its_times(server: Server) -> None:
    with behind(server) as (proxy, source):
        proxy.fault = "times"
        reading = read_until(source, lambda reading: reading.is_whole)
        idle = [each.idle_seconds for each in devices(reading) if each.idle_seconds is not None]
        assert max(idle) >= HOUR


def test_only_hosts_that_rest_are_asked_since_when(server: Server) -> None:
    with behind(server) as (proxy, source):
        reading = read_until(source, lambda reading: reading.is_whole)
        asked = [parse_qs(each.body).get("query", [""])[0] for each in proxy.seen]
        named = {
            name
            for text in asked
            for names in re.findall(r'ostname=~"([^"]*)"', text)
            if "[60m:5m]" in text
            for name in names.split("|")
        }
        is_resting = {
            host.name: any(each.idle_seconds is not None for each in host.devices)
            for host in reading.hosts
        }
        assert {is_resting[name] for name in named if name in is_resting} == {True}
        assert False in is_resting.values()


def test_victoria_metrics_is_asked_for_what_is_newest(server: Server) -> None:
    with behind(server) as (proxy, source):
        proxy.headers["X-Server-Hostname"] = "vm-1"
        read_until(source, lambda reading: reading.is_whole)
        asked = [parse_qs(each.body) for each in proxy.seen if each.method == "POST"]
        for each in asked:
            is_any_instant = "time" in each or "FB_FREE" in each["query"][0]
            assert ("nocache" in each) != is_any_instant
    with behind(server) as (proxy, source):
        read_until(source, lambda reading: bool(reading.hosts))
        assert not any("nocache" in each.body for each in proxy.seen)


def test_a_server_without_the_list_of_names_is_asked_by_all_that_are_known(server: Server) -> None:
    with behind(server, interval_seconds=0.1) as (proxy, source):
        proxy.missing = "/label/"
        assert read_until(source, lambda reading: bool(reading.hosts)).report.state == "ok"


def test_a_server_is_asked_as_often_as_that_is_cheap() -> None:
    asked = {query.name: query for query in questions()}

    def seconds(name: str, *costs: float, load: float = 0.0) -> list[float]:
        return [round(asked[name].seconds(cost, load)) for cost in costs]

    assert seconds("main", 0.05, 0.2, 2) == [10, 20, 60]
    for name in ("power_usage_mw", "temperature_celsius", "memory_used_bytes"):
        assert seconds(name, 0.01, 0.05, 2) == [10, 25, 60]
    assert seconds("sm_clock_mhz", 0.01, 2) == [120, 120]
    assert [*seconds("power_usage_mw", 0.05, load=0.01), *seconds("users", 0, load=1)] == [50, 240]
    assert asked["frozen"].seconds(0.01, 1) == inf
    # What is late together, as after a start of the server, soon is no more.
    for is_late, period in ((False, 60), (True, 10)):
        assert asked["ages"].seconds(0.01, 0, is_late=is_late) == period
        assert asked["users"].seconds(0.01, 0, is_late=is_late) == 60


@pytest.mark.parametrize(
    "changed",
    [
        Host("a", "dcgm49", gpus=(Gpu(0), Gpu(2))),
        Host("a", gpus=(Gpu(0, mig=(7, 8)), Gpu(2))),
    ],
    ids=["upgraded", "divided"],
)
def test_a_gpu_whose_series_get_other_names_is_not_lost_meanwhile(
    tmp_path: Path, changed: Host
) -> None:
    """What is lost at the same time is known by then."""
    both = (Host("a", gpus=(Gpu(0), Gpu(1), Gpu(2))), Host("b", gpus=(Gpu(0),)))
    pages: dict[str, Host | None] = {"0": both[0], "1": both[1]}
    seen = set()

    def is_lost(reading: Reading) -> bool:
        (host,) = (each for each in reading.hosts if each.name == "a")
        state_of = {each.label: each.state for each in host.devices}
        seen.add((host.state, state_of["0"], state_of["2"]))
        return state_of["1"] == "lost"

    with faulty() as first, faulty() as second:
        for number, server in enumerate((first, second)):
            server.page = partial(live_page, pages, str(number))
        config = scrape_config([first.url[7:], second.url[7:]], seconds=0.5)
        with serving(tmp_path, config) as url:
            source = PrometheusSource(Endpoint(url=url), interval_seconds=2)
            read_until(source, lambda reading: states(reading).get("a") == ["ok"] * 4)
            pages["0"] = changed
            read_until(source, is_lost)
            source.close(10)
    assert seen == {("ok", "ok", "ok")}


def test_a_host_that_is_scraped_every_four_minutes_is_not_late(tmp_path: Path) -> None:
    with past(tmp_path, (Host("a"), Host("b")), 2400.0, 240.0) as rare:
        # As it is just before the next scrape.
        at = datetime.fromtimestamp(rare.now + 235, timezone.utc)
        source = PrometheusSource(Endpoint(url=rare.url))
        source.ask(FleetRequest(at=at))
        reading = read_until(source, lambda reading: reading.at == at and reading.is_whole)
        source.close(10)
    assert states(reading) == {"a": ["ok"] * 3, "b": ["ok"] * 3}
    assert [host.age_seconds for host in reading.hosts] == [235, 235]


def test_metrics_are_read_by_the_names_that_recording_rules_gave_them(tmp_path: Path) -> None:
    names = {
        "DCGM_FI_DEV_GPU_UTIL": "gpu:utilization:max",
        "DCGM_FI_DEV_FB_USED": "gpu:memory_used:max",
        "nvidia_smi_gpu_info": "gpu:info",
    }
    hosts = Host("a", gpus=(Gpu(0), Gpu(1, "lost"))), Host("b", "smi", gpus=(Gpu(0),))
    with past(tmp_path, hosts, recorded=names) as renamed:
        source = PrometheusSource(Endpoint(url=renamed.url, metrics=names))
        request = ChartRequest(metric="gpu_utilization_percent", hosts=("a", "b"))
        source.ask(FleetRequest(charts=(request,)))
        reading = read_until(source, lambda reading: reading.is_whole and bool(reading.charts))
        source.close(10)
    assert states(reading) == {"a": ["ok", "ok", "lost"], "b": ["ok"] * 2}
    both = [host.devices[0] for host in reading.hosts]
    assert all(70 <= (each.gpu_utilization_percent or 0) <= 90 for each in both)
    assert [each.memory_used_bytes for each in both] == [50_000 << 20] * 2
    assert [line.host for line in reading.charts[0].lines] == ["a", "b"]


def test_a_metric_of_no_exporter_cannot_have_another_name() -> None:
    settings = Settings(fleet=FleetSettings(metrics={"DCGM_FI_DEV_GPU_UTI": "x"}))
    with pytest.raises(UsageError, match="did you mean DCGM_FI_DEV_GPU_UTIL"):
        next(opened(Namespace(prometheus=["http://127.0.0.1:1"]), settings))


def live_page(pages: dict[str, Host | None], number: str, _path: str) -> bytes | None:
    host = pages[number]
    return None if host is None else page(host, time.time()).encode()


def states(reading: Reading) -> dict[str, list[str]]:
    """Return the states of hosts, each followed by those of its devices."""
    return {host.name: [host.state, *(d.state for d in host.devices)] for host in reading.hosts}


def devices(reading: Reading) -> list[FleetDevice]:
    return [device for host in reading.hosts for device in host.devices]


def total_memory(reading: Reading) -> int:
    return sum(each.memory_used_bytes or 0 for each in devices(reading))


def host_of(reading: Reading, host: Host) -> FleetHost:
    """Return a host of the rig as it was read."""
    key = host.shown, host.cluster or None
    (found,) = (each for each in reading.hosts if (each.name, each.cluster) == key)
    return found


def devices_of(reading: Reading, host: Host, gpu: Gpu) -> list[FleetDevice]:
    """Return a GPU of the rig as it was read, with its MIG instances."""
    gpu_uuid = f"GPU-{uuid(host, gpu)}"
    devices = host_of(reading, host).devices
    return [each for each in devices if gpu_uuid in (each.uuid, each.parent_uuid)]


def does(host: FleetHost, devices: list[FleetDevice]) -> str:
    """Return what a GPU does, in the rig's words."""
    device = devices[0]
    if device.state == "lost":
        return "lost"
    if host.state == "down":
        return "unknown"
    parts = [each for each in devices if each.gpu_utilization_percent is not None]
    if any((each.gpu_utilization_percent or 0) >= 5 for each in parts):
        return "busy"
    idle = min(each.idle_seconds or 0.0 for each in parts)
    is_held = (device.memory_used_bytes or 0) > 1 << 30
    if idle >= HOUR and is_held:
        return "held-idle"
    if is_held:
        return "fresh-job"
    return "allocated-unused" if device.job else "free"


@pytest.mark.parametrize("host", FLEET, ids=lambda host: host.name + host.cluster)
def test_does_what_the_exporters_say(whole: Reading, host: Host) -> None:
    found = host_of(whole, host)
    want = "down" if host.is_down else "stale" if host.is_frozen else "ok"
    assert found.state == want
    # Not since the hour before, when it was missed first.
    assert not host.is_down or DOWN_SECONDS <= (found.age_seconds or 0) < 3000
    assert found.expected_devices == len(host.gpus)
    assert found.group == f"r{len(host.name)}"
    for gpu in host.gpus:
        devices = devices_of(whole, host, gpu)
        assert devices[0].index == gpu.index
        assert devices[0].name == "H100"
        assert len(devices) == 1 + len(gpu.mig)
        assert does(found, devices) == ("unknown" if host.is_down else gpu.does)


@pytest.mark.parametrize("host", FLEET, ids=lambda host: host.name + host.cluster)
def test_units_do_not_depend_on_the_exporter(whole: Reading, host: Host) -> None:
    for gpu in host.gpus:
        device = devices_of(whole, host, gpu)[0]
        if host.is_down or gpu.does == "lost":
            assert device.memory_used_bytes is None
            continue
        used = 4 if gpu.does in ("free", "allocated-unused") else 50_000
        assert device.memory_used_bytes == used << 20
        assert device.power_usage_mw is not None
        if gpu.does == "busy" and not gpu.mig:
            assert device.gpu_utilization_percent is not None
            assert 70 <= device.gpu_utilization_percent <= 90
            assert device.power_usage_mw // 1000 - 60 == 4 * round(device.gpu_utilization_percent)
        assert device.memory_total_bytes == 81_559 << 20
        if host.dialect not in ("smi", "nvitop"):
            assert device.sm_clock_mhz == 1980


def test_nothing_foreign_is_a_temperature(whole: Reading) -> None:
    (host,) = (each for each in FLEET if each.dialect == "nvitop")
    assert {each.temperature_celsius for each in host_of(whole, host).devices} == {None}


def test_only_xid_errors_of_the_last_hour(whole: Reading) -> None:
    found = {(h.name, d.index): d.xid for h in whole.hosts for d in h.devices if d.xid}
    assert found == {("xid1", 0): 79, ("smi1", 2): 79}


def test_xid_errors_are_recent_however_late_the_devices_of_before_are_known(
    server: Server, whole: Reading
) -> None:
    with behind(server) as (proxy, source):
        proxy.holds = lambda body: "timestamp" in body and "unless" in body
        read_until(source, lambda reading: any(d.temperature_celsius for d in devices(reading)))
        proxy.holds = lambda _body: False
        reading = read_until(source, lambda reading: reading.is_whole)
        assert [each.xid for each in devices(reading)] == [each.xid for each in devices(whole)]


def test_what_was_lost_lately_is_known_before_the_whole_day_has_been_looked_at(
    server: Server, whole: Reading
) -> None:
    with behind(server) as (proxy, source):
        proxy.holds = lambda body: "84672s" in body
        lost = [each.label for each in devices(whole) if each.state == "lost"]
        reading = read_until(source, lambda reading: len(reading.hosts) == len(whole.hosts))
        assert [each.label for each in devices(reading) if each.state == "lost"] == lost
        assert not reading.is_whole


def test_questions_that_are_asked_in_parts_find_the_same(
    server: Server, whole: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpudash.fleet.prometheus.questions.MAX_AT_ONCE", 2)
    with behind(server) as (proxy, source):
        reading = read_until(source, lambda reading: reading.is_whole)
        parts = [seen for seen in proxy.seen if "%3D~%22.%2A0%22" in seen.body]
    assert len(parts) > 5
    assert not reading.report.warnings
    assert [what_is_steady(each) for each in devices(reading)] == [
        what_is_steady(each) for each in devices(whole)
    ]


def what_is_steady(device: FleetDevice) -> tuple[object, ...]:
    rest = device.idle_seconds
    is_long = None if rest is None else rest > HOUR / 2
    return device.label, device.state, device.xid, device.memory_total_bytes, is_long


def test_mig_instances_stand_behind_their_gpu(whole: Reading) -> None:
    host = next(each for each in FLEET if each.name == "mig1")
    gpu, *instances = devices_of(whole, host, host.gpus[0])
    assert gpu.gpu_utilization_percent is None
    assert [each.index for each in instances] == [7, 8]
    assert [each.uuid for each in instances] == ["MIG-GPU-mig1-0/7", "MIG-GPU-mig1-0/8"]
    assert [(each.gpu_utilization_percent or 0) > 0 for each in instances] == [True, False]
    assert all(each.power_usage_mw is None for each in instances)


def test_pods_and_users(whole: Reading) -> None:
    old = next(each for each in FLEET if each.name == "old2")
    (shared,) = devices_of(whole, old, old.gpus[2])
    assert shared.users == ("team-slices",)
    assert (shared.gpu_utilization_percent or 0) >= 70
    jobs = {job.id: job for job in whole.jobs}
    assert jobs["team-slices/slice-1"].hosts == ("old2",)
    assert "team-old1/train-1" not in jobs
    nvitop = next(each for each in FLEET if each.dialect == "nvitop")
    assert devices_of(whole, nvitop, nvitop.gpus[1])[0].users == ("ada",)


def test_a_job_of_minutes_was_not_idle_for_an_hour(whole: Reading) -> None:
    old = next(each for each in FLEET if each.name == "old2")
    (fresh,) = devices_of(whole, old, old.gpus[1])
    assert fresh.idle_seconds is not None
    assert fresh.idle_seconds <= FRESH_SECONDS


def test_the_status_follows(whole: Reading) -> None:
    words = {
        "busy": "busy",
        "free": "free",
        "held-idle": "held-idle",
        "allocated-unused": "held-idle",
        "fresh-job": "held-idle",
        "lost": "lost",
    }
    reduced = replace(whole, hosts=Reducer().reduce(merge([whole])).hosts)
    for host in FLEET:
        for gpu in host.gpus:
            if not (host.is_down or host.is_frozen or gpu.mig):
                (device,) = devices_of(reduced, host, gpu)
                assert (host.name, gpu.index, device.status) == (
                    host.name,
                    gpu.index,
                    "unusable" if gpu.xid == 79 else words[gpu.does],
                )


def test_an_instant_in_the_past_and_back(server: Server) -> None:
    source = PrometheusSource(Endpoint(url=server.url))
    before = datetime.fromtimestamp(server.now - DOWN_SECONDS - 60, timezone.utc)
    down = next(each for each in FLEET if each.is_down)
    source.ask(FleetRequest(at=before))
    then = read_until(source, lambda reading: any(host.devices for host in reading.hosts))
    assert then.at == before
    assert host_of(then, down).state == "ok"
    source.ask(FleetRequest())
    now = read_until(source, lambda reading: reading.is_whole)
    assert now.at is None
    assert host_of(now, down).state == "down"
    source.close(10)


def test_charts_of_the_fleet_a_host_and_its_devices(server: Server) -> None:
    source = PrometheusSource(Endpoint(url=server.url))
    names = ("old1", "newer1", "trap1", "10.0.0.7")
    requests = (
        ChartRequest(metric="gpu_utilization_percent"),
        ChartRequest(metric="memory_used_bytes", hosts=names),
        ChartRequest(metric="gpu_utilization_percent", hosts=("trap1",), by_device=True),
        ChartRequest(metric="power_usage_mw", hosts=("twin",), cluster="west"),
        ChartRequest(metric="enforced_power_limit_mw"),
    )
    source.ask(FleetRequest(charts=requests))
    reading = read_until(source, lambda reading: len(reading.charts) == len(requests))
    for chart, asked in zip(reading.charts, requests, strict=True):
        assert (chart.cluster, chart.hosts) == (asked.cluster, asked.hosts)
    fleet, memory, trap, twin, nothing = reading.charts
    assert [line.host for line in fleet.lines] == [None]
    assert {line.host for line in memory.lines} == set(names)
    assert [line.index for line in trap.lines] == [0, 1]
    assert all(70 <= value <= 90 for value in trap.lines[0].values if value is not None)
    assert sum(value is not None for value in trap.lines[0].values) > 100
    assert [line.host for line in twin.lines] == ["twin"]
    assert {round(value or 0) // 1000 for value in twin.lines[0].values} <= {60, 61, 0}
    assert nothing.message
    source.close(10)


def test_the_unit_of_a_ratio_is_that_of_each_host_in_its_past_too(server: Server) -> None:
    """One has 0.8, one has 80 of the same name, and both are 80 %."""
    source = PrometheusSource(Endpoint(url=server.url))
    read_until(source, lambda reading: reading.is_whole)
    metric, names = "gpu_utilization_percent", tuple({host.shown for host in FLEET})
    requests = (
        ChartRequest(metric=metric, hosts=("new1", "trap1"), by_device=True),
        ChartRequest(metric=metric, hosts=names, by_device=True),
        ChartRequest(metric=metric),
    )
    source.ask(FleetRequest(charts=requests))
    reading = read_until(source, lambda reading: len(reading.charts) == len(requests))
    source.close(10)
    both, every, fleet = (chart.lines for chart in reading.charts)
    busy = [line.values for line in both if line.index == 0]
    assert len(busy) == 2
    assert all(70 <= value <= 90 for values in busy for value in values if value is not None)
    for mean, *values in zip(fleet[0].values, *(line.values for line in every), strict=True):
        known = [value for value in values if value is not None]
        assert mean is None or mean == pytest.approx(sum(known) / len(known), abs=0.1)


@pytest.mark.parametrize("dialect", ["dcgm", "dcgm49", "smi"])
def test_a_lost_gpu_stays_lost_when_its_host_starts_and_numbers_the_others_anew(
    tmp_path: Path, dialect: str
) -> None:
    gpus = tuple(map(Gpu, range(4)))
    pages: dict[str, Host | None] = {"0": Host("a", dialect, gpus), "1": Host("b")}
    seen: list[tuple[str, list[tuple[int, str, str]]]] = []

    def last(reading: Reading) -> tuple[str, list[tuple[int, str, str]]]:
        """Return the state of the host, which some exporters do not name, and its GPUs."""
        hosts = (each for each in reading.hosts if each.name != "b")
        for host in hosts:
            found = [(each.index, (each.uuid or "-")[-1], each.state) for each in host.devices]
            seen.append((host.state, found))
        return seen[-1] if seen else ("", [])

    with faulty() as first, faulty() as second:
        for number, server in enumerate((first, second)):
            server.page = partial(live_page, pages, str(number))
        config = scrape_config([first.url[7:], second.url[7:]], seconds=_SCRAPED_SECONDS)
        with serving(tmp_path, config) as url:
            source = PrometheusSource(Endpoint(url=url), interval_seconds=0.5)
            read_until(source, lambda reading: len(last(reading)[1]) == 4)
            pages["0"] = Host("a", dialect, (*gpus[:2], gpus[3]))
            lost = [(0, "0", "ok"), (1, "1", "ok"), (2, "2", "lost"), (3, "3", "ok")]
            read_until(source, lambda reading: last(reading) == ("ok", lost))
            pages["0"] = None
            read_until(source, lambda reading: last(reading)[0] == "down")
            seen.clear()
            pages["0"] = Host("a", dialect, (*gpus[:2], Gpu(2, card=3)))
            left = [(0, "0", "ok"), (1, "1", "ok"), (2, "3", "ok"), (2, "2", "lost")]
            read_until(source, lambda reading: last(reading) == ("ok", left))
            source.close(10)
    assert not [found for state, found in seen if state == "ok" and found != left]
