from collections.abc import Sequence
from datetime import datetime, timezone
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import json

from gpudash.analysis.report import ReportSums
from gpudash.model.errors import WireError
from gpudash.model.report import (
    Grouping,
    Minute,
    MinuteDevice,
    MinuteFinding,
    MinuteUse,
    Report,
    decode,
    decode_minute,
    encode_minute,
)
from gpudash.model.text import SafeText, clean
from tests.factories import GIB

AT = datetime(2026, 1, 2, tzinfo=timezone.utc)
NAMES = st.sampled_from([clean("ann"), clean("bob"), None])
SECONDS = st.integers(0, 60).map(float)
KNOWN = st.none() | st.integers(0, 1000)


def uses(device: int) -> st.SearchStrategy[MinuteUse]:
    """Any use of a GPU."""
    four = SECONDS, SECONDS, SECONDS, SECONDS
    return st.builds(MinuteUse, *four, KNOWN, KNOWN, st.just(device), NAMES, NAMES)


@st.composite
def minutes(draw: st.DrawFn) -> Minute:
    """Any minute of one of two hosts, with an instance on the second of its GPUs."""
    four = SECONDS, SECONDS, SECONDS, SECONDS
    devices = [
        draw(
            st.builds(
                MinuteDevice,
                *four,
                *(KNOWN, KNOWN, SECONDS, st.just(clean(f"GPU-{index}")), st.just(clean(label))),
                *(st.sampled_from([clean("H100"), clean("A100"), None]), st.just(parent)),
            )
        )
        for index, (label, parent) in enumerate([("0", None), ("1", None), ("1:0", 1)])
    ]
    found = st.lists(st.sampled_from([0, 1]).flatmap(uses), max_size=4)
    rules = st.builds(
        MinuteFinding,
        st.sampled_from([clean("hot"), clean("slow")]),
        st.sampled_from(["info", "warn"]),
        SECONDS,
        st.sampled_from([None, 0, 2]),
    )
    return Minute(
        taken_at=AT,
        host=draw(st.sampled_from([clean("n1"), clean("n2")])),
        seconds=draw(SECONDS),
        devices=tuple(devices),
        users=tuple(draw(found)),
        jobs=tuple(draw(found)),
        findings=tuple(draw(st.lists(rules, max_size=2))),
    )


def price(name: str | None) -> float | None:
    """The price of an hour of an H100 alone."""
    return 2.0 if name == "H100" else None


def report_of(by: Grouping, found: Sequence[Minute]) -> Report:
    sums = ReportSums(by)
    for minute in found:
        sums.add(minute)
    return sums.report(AT, AT, AT, price)


@given(st.sampled_from(get_args(Grouping)), st.lists(minutes(), max_size=6), st.integers(0, 6))
def test_reports_of_parts_merge_to_that_of_the_whole(
    by: Grouping, found: list[Minute], cut: int
) -> None:
    """However minutes are divided, and whichever hosts they are of; through documents, too."""
    merged = ReportSums(by)
    for part in (found[:cut], found[cut:]):
        for host in (clean("n1"), clean("n2")):
            one = report_of(by, [each for each in part if each.host == host])
            assert decode(json.encode(one)) == one
            merged.merge(one, host)
    assert merged.report(AT, AT, AT, price).hosts == report_of(by, found).hosts
    assert set(merged.report(AT, AT, AT, price).rows) == set(report_of(by, found).rows)
    assert set(merged.report(AT, AT, AT, price).findings) == set(report_of(by, found).findings)


@given(st.lists(minutes(), max_size=6))
def test_groupings_have_the_same_sums_where_time_is_not_counted_twice(found: list[Minute]) -> None:
    """A host is its GPUs without their instances."""
    gpus, hosts = (report_of(by, found).rows for by in ("gpu", "host"))
    whole = [row for row in gpus if row.parent_uuid is None]
    for name in ("held_seconds", "share_seconds", "idle_seconds", "unknown_seconds"):
        assert sum(getattr(row, name) for row in whole) == sum(getattr(row, name) for row in hosts)
    assert sum(row.seen_seconds or 0 for row in hosts) == sum(
        host.gpu_seconds for host in report_of("user", found).hosts
    )
    assert sum(row.energy_mj or 0 for row in whole) == sum(row.energy_mj or 0 for row in hosts)


def of_gpus(*values: tuple[MinuteUse, ...]) -> list[Minute]:
    devices = tuple(
        MinuteDevice(key=clean(f"GPU-{name}"), label=clean(label), name=clean(name))
        for label, name in enumerate_names("H100", "A100")
    )
    return [Minute(taken_at=AT, host=clean("n1"), devices=devices, users=each) for each in values]


def enumerate_names(*names: str) -> list[tuple[str, str]]:
    """Names with their positions as labels."""
    return [(str(number), name) for number, name in enumerate(names)]


def test_memory_is_what_is_held_at_once_and_the_cost_is_that_of_the_shares_with_a_price() -> None:
    """Sums over GPUs, maximum over minutes."""
    ann: SafeText = clean("ann")
    two = (
        MinuteUse(60, 30, 0, 0, 2 * GIB, 5.0, 0, ann),
        MinuteUse(60, 60, 0, 0, 3 * GIB, None, 1, ann),
    )
    [row] = report_of("user", of_gpus(two, two[:1])).rows
    assert (row.user, row.held_seconds, row.share_seconds) == ("ann", 180, 120)
    assert (row.peak_memory_bytes, row.energy_mj) == (5 * GIB, 10)
    assert [(each.name, each.share_seconds) for each in row.models] == [("A100", 60), ("H100", 60)]
    assert row.cost == pytest.approx(2.0 * 60 / 3600, abs=1e-4)


def test_a_line_that_names_a_device_that_is_not_there_is_refused() -> None:
    """A history may be anybody's."""
    [minute] = of_gpus((MinuteUse(device=2),))
    with pytest.raises(WireError, match="position of a device"):
        decode_minute(encode_minute(minute))
