from datetime import datetime, timedelta, timezone

import pytest

from gpudash.analysis.history.numbers import extents
from gpudash.model.report import Minute, MinuteDevice, encode_minute, joined
from gpudash.model.text import clean

START = datetime(2026, 1, 2, tzinfo=timezone.utc)
DEVICES = MinuteDevice(key=clean("GPU-0")), MinuteDevice(key=clean("GPU-1"))


def minute(
    minutes: float, *means: float | None, devices: tuple[MinuteDevice, ...] = DEVICES
) -> Minute:
    """Two GPUs with these powers, the highest twice as high."""
    heat = tuple(50.0 for _ in devices)
    return Minute(
        taken_at=START + timedelta(minutes=minutes),
        host=clean("n1"),
        devices=devices,
        means={"power_usage_mw": means, "temperature_celsius": heat} if means else {},
        maxima={"power_usage_mw": tuple(each and 2 * each for each in means)} if means else {},
    )


def line(minutes: float, *means: float | None) -> bytes:
    """The same as it is kept."""
    return encode_minute(minute(minutes, *means))


def test_a_point_has_the_minutes_in_its_time_and_gaps_are_none() -> None:
    lines = [line(-1, 9, 9), line(0.5, 10, 20), line(1.5, 30, None), b"{}", line(2.5), line(60, 9)]
    found = extents(lines, "power_usage_mw", START, 360, 3)
    assert found == {"GPU-0": [(10, 20, 60), None, None], "GPU-1": [(20, 20, 40), None, None]}


COMING_AND_GOING = (
    minute(0, 10, 20),
    minute(1, 30, 5, devices=DEVICES[::-1]),
    minute(2),
    minute(3, 8, devices=DEVICES[1:]),
    minute(4, 7, None, 10, devices=(MinuteDevice(key=clean("MIG-2")), *DEVICES)),
)


def test_a_device_that_comes_goes_or_moves_has_its_own_values() -> None:
    found = extents(map(encode_minute, COMING_AND_GOING), "power_usage_mw", START, 360, 2)
    assert found == {
        "GPU-0": [(5, 7.5, 20), None],
        "GPU-1": [(20, 25, 60), (8, 9, 20)],
        "MIG-2": [None, (7, 7, 14)],
    }


def test_several_minutes_in_a_line_are_drawn_as_each_of_them() -> None:
    behind = minute(7, 1, 2)
    few, many = (joined(COMING_AND_GOING), behind), (*COMING_AND_GOING, behind)
    found, expected = (
        extents(map(encode_minute, each), "power_usage_mw", START, 720, 2) for each in (few, many)
    )
    assert found == expected


def test_a_minute_that_ends_with_the_start_of_a_point_is_in_that_one() -> None:
    lines = [line(6 * n, n + 1, 1) for n in range(240)]
    found = extents(lines, "power_usage_mw", START, 86400, 240)
    assert found["GPU-0"] == [(n, n, 2 * n) for n in range(1, 241)]


def test_what_is_not_charted_has_no_history() -> None:
    with pytest.raises(ValueError, match="no history is kept of serial"):
        extents([], "serial", START, 60, 1)
