from datetime import datetime, timedelta, timezone
from math import inf

import pytest

from gpudash.analysis.report import ReportSums
from gpudash.fleet.demo import PRICES, DemoSource
from gpudash.fleet.events import events
from gpudash.fleet.jobs import job_gpus
from gpudash.fleet.prometheus.dialects import FIELDS
from gpudash.fleet.summary import GpuRow
from gpudash.fleet.users import Prices
from gpudash.model.fleet import ChartRequest, FleetRequest, FleetSnapshot, decode, encode

NOW = 1_800_000_000.0


def demo(hosts: int = 128, *, is_calm: bool = False, at: list[float] | None = None) -> DemoSource:
    moment = at or [NOW]
    return DemoSource(hosts, 8, is_calm=is_calm, clock=lambda: moment[0])


def test_same_instant_is_the_same_fleet() -> None:
    assert demo().read() == demo().read()


def test_fits_the_document() -> None:
    reading = demo().read()
    snapshot = FleetSnapshot(
        taken_at=datetime.fromtimestamp(NOW, timezone.utc), hosts=reading.hosts, jobs=reading.jobs
    )
    assert decode(encode(snapshot)) == snapshot


def test_every_number_that_is_known_of_a_gpu_is_simulated() -> None:
    devices = [device for host in demo().read().hosts for device in host.devices]
    silent = {name for name in FIELDS if all(getattr(each, name) is None for each in devices)}
    assert silent == set()


def test_no_two_devices_of_a_host_have_one_label() -> None:
    for host in demo().read().hosts:
        labels = [device.label for device in host.devices]
        assert None not in labels
        assert len(set(labels)) == len(labels)


def test_calm_fleet_answers_in_full() -> None:
    hosts = demo(is_calm=True).read().hosts
    assert {host.state for host in hosts} == {"ok"}
    assert {device.state for host in hosts for device in host.devices} == {"ok"}


@pytest.mark.parametrize("hosts", [24, 128])
def test_jobs_have_the_gpus_and_instances_that_name_them(hosts: int) -> None:
    reading = demo(hosts).read()
    rows = [(device, host.name) for host in reading.hosts for device in host.devices]
    divided = {device.parent_uuid for device, _ in rows}
    gpus = [(device, host) for device, host in rows if device.uuid not in divided]
    assert reading.jobs
    for job in reading.jobs:
        hosts = [host for device, host in gpus if device.job == job.id]
        assert (job.devices, job.hosts) == (len(hosts), tuple(dict.fromkeys(hosts)))


def test_events_show() -> None:
    source = demo(1000)
    hosts = source.read().hosts
    kinds = {event.kind: event for event in source.faults if event.until > 0}
    assert hosts[kinds["down"].hosts[0]].state == "down"
    assert hosts[kinds["frozen"].hosts[0]].state == "stale"
    assert {device.xid for device in hosts[kinds["xid"].hosts[0]].devices} == {None, 74}
    lost = next(event for event in source.faults if event.kind == "lost" and event.at < 0)
    assert hosts[lost.hosts[0]].devices[lost.gpus[0]].state == "lost"


def test_event_of_the_future_happens_later() -> None:
    moment = [NOW]
    source = demo(1000, at=moment)
    event = next(event for event in source.faults if event.at > 0)
    device = source.read().hosts[event.hosts[0]].devices[event.gpus[0]]
    moment[0] += event.at + 60
    later = source.read().hosts[event.hosts[0]].devices[event.gpus[0]]
    assert (device.state, later.state) == ("ok", "lost")


def test_a_past_has_all_that_went_wrong_to_the_minute() -> None:
    source = demo(1000)
    end = datetime.fromtimestamp(NOW, timezone.utc)
    happened = events(source.past(end - timedelta(hours=12), end))
    found = {
        (each.kind, each.host, end.timestamp() - each.at.timestamp())
        for each in happened
        if each.kind in ("gpu-lost", "gpu-returned", "host-down", "host-up")
    }
    kinds = {"lost": ("gpu-lost", "gpu-returned"), "down": ("host-down", "host-up")}
    assert found == {
        (kind, f"gpu{host + 1:04}", -at)
        for fault in source.faults
        for kind, at in zip(kinds.get(fault.kind, ()), (fault.at, fault.until), strict=False)
        for host in fault.hosts
        if at <= 0
    }
    assert len(found) == 6


def test_events_are_those_of_the_time_that_is_asked_for() -> None:
    source = demo(1000)
    end = datetime.fromtimestamp(NOW, timezone.utc)
    until = end - timedelta(hours=2)
    for asked in (until, None, until):
        source.ask(FleetRequest(events_since=end - timedelta(hours=8), events_until=asked))
        found = [each.at for each in source.read().events or ()]
        assert end - timedelta(hours=8) < found[0]
        assert (found[-1] <= until) is (asked is not None)


def test_a_report_of_it_has_what_was_held_idle() -> None:
    end = datetime.fromtimestamp(NOW, timezone.utc)
    sums = ReportSums("user")
    for minute in demo(1000).minutes(end - timedelta(hours=12), end):
        sums.add(minute)
    report = sums.report(end, end - timedelta(hours=12), end, Prices(PRICES))
    rows = {row.user: row for row in report.rows}
    # He has had all GPUs of a host for eight hours and uses none; nobody else has so many idle.
    walter = rows["walter"]
    assert (walter.held_seconds, walter.idle_seconds) == (64 * 3600.0, 64 * 3600.0)
    assert walter.cost == 64 * next(
        p for part, p in PRICES.items() if part in walter.models[0].name
    )
    # For an hour Frank has had a process on a GPU of a job of Dave's.
    dave, frank = rows["dave"], rows["frank"]
    assert [each.held_seconds - each.share_seconds for each in (dave, frank)] == [1800.0, 1800.0]
    # One was down for 24 minutes, one is since 15, one has sent nothing for 20.
    lost = sorted(
        12 * 3600 - each.seen_seconds for each in report.hosts if each.seen_seconds < 43200
    )
    assert lost == [15 * 60, 20 * 60, 24 * 60]


def test_shows_an_earlier_instant() -> None:
    source = demo(1000)
    source.ask(FleetRequest(at=datetime.fromtimestamp(NOW - 30 * 24 * 3600, timezone.utc)))
    assert {host.state for host in source.read().hosts} == {"ok"}


@pytest.mark.parametrize(
    ("request_", "lines"),
    [
        (ChartRequest(metric="gpu_utilization_percent", points=5), 1),
        (ChartRequest(metric="power_usage_mw", hosts=("gpu001", "gpu002"), points=5), 2),
        (ChartRequest(metric="xid", hosts=("gpu001",), by_device=True, points=5), 8),
    ],
)
def test_draws_charts(request_: ChartRequest, lines: int) -> None:
    source = demo()
    source.ask(FleetRequest(charts=(request_,)))
    (chart,) = source.read().charts
    assert [len(line.values) for line in chart.lines] == [5] * lines
    assert (chart.cluster, chart.hosts) == (request_.cluster, request_.hosts)


@pytest.mark.parametrize(("hosts", "gpus"), [(1, 1), (2, 2), (17, 4), (70, 16)])
def test_any_size_can_be_read(hosts: int, gpus: int) -> None:
    reading = DemoSource(hosts, gpus, clock=lambda: NOW).read()
    assert len(reading.hosts) == hosts
    assert all(host.devices for host in reading.hosts)


def test_nothing_is_charted_of_a_host_since_it_was_last_heard() -> None:
    source = demo(1000)
    down = next(host for host in source.read().hosts if host.state == "down")
    chart = ChartRequest(
        metric="gpu_utilization_percent",
        span_seconds=3600.0,
        points=61,
        hosts=(down.name,),
        by_device=True,
    )
    source.ask(FleetRequest(charts=(chart,)))
    (found,) = source.read().charts
    assert down.age_seconds is not None
    silent = int(down.age_seconds // 60)
    assert {line.values[-1 - silent :] for line in found.lines} == {(None,) * (silent + 1)}
    assert None not in found.lines[0].values[: -3 - silent]


def test_an_answer_does_not_wait_for_the_next_sample() -> None:
    source = DemoSource(8, 8, clock=lambda: NOW)
    assert source.due_in() == inf
    source.ask(FleetRequest(charts=(ChartRequest(metric="power_usage_mw"),)))
    assert source.due_in() == 0
    source.advance()
    assert source.due_in() == inf


def test_a_chart_ends_at_the_time_that_was_asked_for() -> None:
    source = DemoSource(8, 8, clock=lambda: NOW)
    end = datetime.fromtimestamp(NOW - 3600, timezone.utc)
    source.ask(FleetRequest(charts=(ChartRequest(metric="power_usage_mw", end=end),)))
    assert [chart.end for chart in source.read().charts] == [end]


def test_a_process_of_another_user_is_beside_a_job() -> None:
    reading = demo().read()
    owners = {job.id: job for job in reading.jobs}
    others = [
        (row.gpu.label, row.others)
        for host in reading.hosts
        for device in host.devices
        for row in job_gpus([GpuRow(host, device)], owners.get(device.job or ""))
        if row.others
    ]
    assert others == [("1", ("frank PID 41377",))]
