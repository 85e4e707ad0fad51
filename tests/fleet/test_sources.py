"""The table of sources: what is in it is an option everywhere, and reaches the collector."""

from contextlib import closing
from importlib import import_module

import pytest

from gpudash.cli import fleet, modes
from gpudash.cli.arguments import parse
from gpudash.cli.options import collector_words, report_words
from gpudash.config import Settings
from gpudash.fleet.sources import OPTIONS, SOURCES, SourceKind, dest

URL = "http://127.0.0.1:9"
VALUES = {"host": "gpu[1-2]", "demo": "fleet-2x2", "prometheus": URL, "scrape": URL}
"""A value of an option that is about many hosts; any will do for the others."""
ASKED = [kind for kind in SOURCES.values() if kind.options]


def words(kind: SourceKind) -> list[str]:
    return [f"--{name}={VALUES.get(name, 'file')}" for name in (*kind.options, *kind.more)]


@pytest.mark.parametrize("kind", ASKED, ids=lambda kind: kind.module)
def test_a_collector_is_started_with_the_options_of_its_starter(kind: SourceKind) -> None:
    options = parse(["--json", *words(kind)])
    again = parse(fleet.command(options)[len(collector_words()) - 1 :])
    assert kind.is_asked(again)
    assert fleet.command(again) == fleet.command(options)
    given = fleet.environment(options)
    for name in OPTIONS:
        value = getattr(options, dest(name))
        passed_on = given.get(kind.variable) if kind.variable else getattr(again, dest(name))
        assert value is None or passed_on in (value, " ".join(value)), name


@pytest.mark.parametrize("kind", ASKED, ids=lambda kind: kind.module)
def test_the_past_of_what_is_shown_is_reported_by_the_same_source(kind: SourceKind) -> None:
    reported = report_words(parse(words(kind)))
    again = parse(reported[len(collector_words()) - 1 :])
    assert kind.is_asked(again) is kind.reports
    assert not [each for each in ASKED if each is not kind and each.is_asked(again)]


@pytest.mark.parametrize("kind", ASKED, ids=lambda kind: kind.module)
@pytest.mark.parametrize("command", [(), ("record", "FILE")])
def test_options_of_a_source_are_about_many_hosts(
    kind: SourceKind, command: tuple[str, ...]
) -> None:
    options = parse([*command, *words(kind)])
    assert modes.is_fleet(options)
    assert fleet.interval(options) == kind.interval


@pytest.mark.parametrize("name", [name for name, kind in SOURCES.items() if kind.options])
def test_what_a_module_opens_is_of_its_kind(name: str) -> None:
    first = next(iter(SOURCES[name].options))
    options = parse([f"--{first}={VALUES.get(first, 'file')}"])
    with closing(fleet.open_collector(options)) as collector:
        assert collector.read()[0].report.kind == name


def test_a_kind_without_options_is_opened_only_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    options = parse(["--host=gpu[1-2]"])
    quiet = [kind for kind in SOURCES.values() if not kind.options]
    assert quiet
    assert not [
        each for kind in quiet for each in import_module(kind.module).opened(options, Settings())
    ]


def test_each_option_belongs_to_one_kind() -> None:
    names = [name for kind in SOURCES.values() for name in (*kind.options, *kind.more)]
    assert len(set(names)) == len(names)
