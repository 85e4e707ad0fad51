import os
from datetime import datetime, timedelta, timezone

import pytest
from msgspec.structs import replace

from gpudash.cli import fleet
from gpudash.cli.arguments import parse
from gpudash.fleet.source import Reading
from gpudash.model.errors import ExitStatus
from gpudash.model.fleet import (
    Event,
    FleetDevice,
    FleetHost,
    FleetJob,
    FleetSource,
    decode,
    mark_of,
)
from gpudash.model.text import SafeText


def test_urls_go_to_the_collector_alone_and_not_by_its_command_line() -> None:
    before = dict(os.environ)
    words = "--prometheus=http://me:secret@one:9090 --prometheus=http://two:9090 --json"
    options = parse([*words.split(), "--scrape=http://n1:9400,http://n2:9400"])
    assert not any("http" in word for word in fleet.command(options))
    assert fleet.environment(options) == {
        "GPUDASH_PROMETHEUS": "http://me:secret@one:9090 http://two:9090",
        "GPUDASH_SCRAPE": "http://n1:9400,http://n2:9400",
    }
    assert dict(os.environ) == before


def test_without_urls_those_of_the_environment_stay() -> None:
    options = parse(["--prometheus", "--scrape", "--json"])
    assert fleet.environment(options) == {}
    assert fleet.command(options)[-2:] == ["--prometheus", "--scrape"]


def test_what_a_scheduler_knows_when_it_first_answers_has_not_just_begun() -> None:
    device = FleetDevice(index=0, uuid=SafeText("GPU-0"), job=SafeText("5"))
    host = FleetHost(name=SafeText("a"), age_seconds=1.0, devices=(device,))
    seen = Reading(report=FleetSource(kind="prometheus", name=SafeText("p")), hosts=(host,))
    waiting = Reading(report=FleetSource(kind="slurm", name=SafeText("s"), state="starting"))
    job = FleetJob(id=SafeText("3_1"), number=SafeText("5"), hosts=(host.name,), devices=1)
    later = replace(job, id=SafeText("6"), number=None)
    view = fleet.Printed(parse(["--prometheus=http://a", "--no-config", "--json"]))
    view.log.since = datetime(2026, 1, 1, tzinfo=timezone.utc)
    view.of([seen, waiting])
    for jobs, began in (((job,), []), ((job, later), ["6"])):
        slurm = Reading(report=replace(waiting.report, state="ok"), hosts=(host,), jobs=jobs)
        events = view.of([seen, slurm]).events
        assert [each.job for each in events or ()] == began


def test_events_that_the_screen_has_are_not_sent_again() -> None:
    since = datetime(2026, 1, 1, tzinfo=timezone.utc)
    device = FleetDevice(index=0, uuid=SafeText("GPU-0"))
    host = FleetHost(name=SafeText("a"), age_seconds=1.0, devices=(device,))
    lost = Event(at=since, kind="gpu-lost", what=SafeText("x"))
    found = lost, replace(lost, at=since + timedelta(hours=1))
    report = FleetSource(kind="prometheus", name=SafeText("p"))
    first, both = (
        Reading(report=report, hosts=(host,), events=some) for some in (found[:1], found)
    )
    view = fleet.Printed(parse(["--prometheus=http://a", "--no-config", "--json"]))
    view.log.since = since
    assert view.of([first]).events == view.of([first]).events == found[:1]
    view.known = mark_of(found[:1])
    assert view.of([first]).events is None
    assert view.of([both]).events == found


def test_it_is_said_from_when_on_the_screen_has_all_events_and_none_after_it_are_sent() -> None:
    since = datetime(2026, 1, 1, tzinfo=timezone.utc)
    host = FleetHost(name=SafeText("a"), age_seconds=1.0)
    lost = Event(at=since, kind="gpu-lost", what=SafeText("x"))
    found = lost, replace(lost, at=since + timedelta(hours=1))
    report = FleetSource(kind="prometheus", name=SafeText("p"))
    asking, known = (Reading(report=report, hosts=(host,), events=each) for each in (None, found))
    view = fleet.Printed(parse(["--prometheus=http://a", "--no-config", "--json"]))
    assert view.of([known]).events_since is None
    view.log.since, view.log.until = since, since + timedelta(minutes=30)
    assert view.of([asking]).events_since is None
    view.known = mark_of(found[:1])
    shown = view.of([known])
    assert (shown.events_since, shown.events) == (since, None)
    view.log.until = None
    assert view.of([known]).events == found


def test_once_waits_for_the_rest_of_few_hosts_and_not_for_that_of_many() -> None:
    assert all(fleet.rest_seconds(100, took) + took >= 2 for took in (0.1, 1.0))
    assert not any(fleet.rest_seconds(1000, took) for took in (0.5, 6.0))


def test_what_failed_at_once_was_not_waited_for(capfd: pytest.CaptureFixture[str]) -> None:
    options = parse(["--prometheus=http://127.0.0.1:9", "--no-config", "--once", "--json"])
    assert options.run(options) == ExitStatus.UNAVAILABLE
    (source,) = decode(capfd.readouterr().out.encode()).sources
    assert (source.state, source.warnings) == ("failed", ())
