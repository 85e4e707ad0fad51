"""Charts of hours, drawn from numbers a minute."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from gpudash.analysis.history.numbers import extents
from gpudash.model.report import Minute, MinuteDevice, encode_minute
from gpudash.model.text import clean

START = datetime(2026, 1, 2, tzinfo=timezone.utc)
DEVICES = MinuteDevice(key=clean("GPU-0")), MinuteDevice(key=clean("GPU-1"))


def line(minutes: float, *means: float | None) -> bytes:
    """A minute of two GPUs with these powers, the highest twice as high."""
    return encode_minute(
        Minute(
            taken_at=START + timedelta(minutes=minutes),
            host=clean("n1"),
            devices=DEVICES,
            means={"power_usage_mw": means, "temperature_celsius": (50.0, 60.0)} if means else {},
            maxima={"power_usage_mw": tuple(each and 2 * each for each in means)} if means else {},
        )
    )


def test_a_point_has_the_minutes_in_its_time_and_gaps_are_none() -> None:
    lines = [line(-1, 9, 9), line(0.5, 10, 20), line(1.5, 30, None), b"{}", line(2.5), line(60, 9)]
    found = extents(lines, "power_usage_mw", START, 360, 3)
    assert found == {"GPU-0": [(10, 20, 60), None, None], "GPU-1": [(20, 20, 40), None, None]}


def test_what_is_not_charted_has_no_history() -> None:
    with pytest.raises(ValueError, match="no history is kept of serial"):
        extents([], "serial", START, 60, 1)
