from datetime import datetime, timezone

import pytest

from gpudash.cli.arguments import parse
from gpudash.model.fleet import Event
from gpudash.model.text import SafeText
from gpudash.output.events import render

NOON = datetime(2026, 11, 27, 12, tzinfo=timezone.utc)
LONG = SafeText("gpu-node-0421.rack-27.pod-3.cluster-west.example.org")
WHAT = SafeText("does not answer " + "any more " * 20)


@pytest.mark.parametrize(("width", "is_cut"), [(80, True), (None, False)])
def test_a_width_cuts_and_none_does_not(width: int | None, is_cut: bool) -> None:
    event = Event(at=NOON, kind="host-down", host=LONG, what=WHAT)
    text = render([event], NOON, NOON, width=width, ascii=True)
    assert (LONG not in text) is is_cut
    assert (WHAT.strip() not in text) is is_cut
    assert all(line == line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize(("columns", "is_cut"), [(None, False), ("60", True)])
def test_a_pipe_is_no_reason_to_cut(
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    columns: str | None,
    is_cut: bool,
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    options = parse(["events", "--demo=fleet-64x8", "--since=1h", "--no-config"])
    assert options.run(options) == 0
    assert ("…" in capfd.readouterr().out) is is_cut
