import sys
from pathlib import Path

import pytest

from gpudash.feed.sampler import SilenceError, Survey, open_survey
from gpudash.model.errors import GpudashError
from gpudash.model.fault import Fault
from gpudash.model.text import clean
from gpudash.model.wire import encode
from tests.factories import make_snapshot

LINE = encode(make_snapshot(1)).decode()


def collector(script: str) -> list[str]:
    """A command that takes an interval, as a collector does."""
    return [sys.executable, "-c", f"import sys, time; line = {LINE!r}\n{script}"]


def test_the_last_samples_are_kept() -> None:
    survey = Survey(collector("[print(line) for _ in range(9)]"), interval=0.1, keep=3)
    survey.fill()
    assert len(survey.samples) == 3
    survey.close()


def test_what_is_no_snapshot_is_passed_over() -> None:
    survey = Survey(collector("print('{}'); print('?'); print(line)"), interval=0.1, keep=1)
    survey.fill()
    assert len(survey.samples) == 1
    survey.close()


def test_a_collector_that_ends_leaves_its_line_and_status() -> None:
    script = "sys.stderr.write('gpudash: no driver; load it\\n'); sys.exit(9)"
    survey = Survey(collector(script), interval=0.1, keep=1)
    with pytest.raises(GpudashError, match=r"^no driver; load it$") as caught:
        survey.fill()
    assert caught.value.exit_status == 9
    survey.close()


def test_a_silent_one_is_given_up() -> None:
    survey = Survey(collector("time.sleep(600)"), interval=0.1, keep=1, patience_seconds=0.2)
    with pytest.raises(SilenceError) as caught:
        survey.fill()
    assert caught.value.exit_status == 10
    survey.close()


def test_why_the_driver_is_silent_is_told() -> None:
    fault = Fault(source="nvml", code=10, message=clean("driver not answering 5 s, in nvmlInit"))
    silent = encode(make_snapshot(0, errors=(fault,))).decode()
    script = f"print({silent!r}, flush=True); time.sleep(600)"
    survey = Survey(collector(script), interval=0.1, keep=1, patience_seconds=2)
    with pytest.raises(SilenceError, match=r"^driver not answering 5 s, in nvmlInit; sudo"):
        survey.fill()
    survey.close()


def test_insisting_starts_the_collector_again(tmp_path: Path) -> None:
    script = f"""
import os
first = not os.path.exists({str(tmp_path / "seen")!r})
open({str(tmp_path / "seen")!r}, "w").close()
sys.exit(9) if first else print(line, flush=True)
time.sleep(600)
"""
    survey = Survey(collector(script), interval=0.1, keep=1)
    troubles: list[str] = []
    assert survey.insist(lambda trouble: not troubles.append(trouble))
    assert len(survey.samples) == 1
    assert troubles == ["the collector ended with status 9"]
    survey.close()


def test_insisting_has_an_end() -> None:
    survey = Survey(collector("sys.exit(9)"), interval=0.1, keep=1)
    assert not survey.insist(lambda trouble: False)
    survey.close()


def test_a_command_that_is_not_there() -> None:
    with pytest.raises(GpudashError, match="the collector cannot be started"):
        Survey(["/no/such/program"], interval=0.1, keep=1)


@pytest.mark.parametrize(("window", "kept"), [(0, 1), (0.2, 1), (2, 9), (60, 9)])
def test_how_many_samples_a_window_needs(window: float, kept: int) -> None:
    survey = open_survey(collector("print(line)"), window)
    assert survey.samples.maxlen == kept
    survey.close()
