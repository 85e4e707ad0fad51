from collections import Counter

import pytest
from msgspec.structs import replace

from gpudash.fleet.reduce import Reducer
from gpudash.fleet.summary import fitting, host_rows
from gpudash.model.fleet import FleetHost
from gpudash.model.host_words import FINDING_WORDS, HOST_STATES
from gpudash.model.state import STATES
from gpudash.tui.fleet.heatmap import Cell
from gpudash.tui.fleet.paint import PAINTINGS, Painter
from gpudash.tui.theme import ASCII, PLAIN
from tests.fleet.many import device, fleet, host

IN_ASCII = replace(PLAIN, glyphs=ASCII)


def painted(one: FleetHost, title: str = "utilization", gpu: int | None = None) -> str:
    painting = next(each for each in PAINTINGS if each.title == title)
    painter = Painter(painting, host_rows(Reducer().reduce(fleet((one,)))), IN_ASCII)
    return painter.glyph(Cell((0,), gpu))[0]


def letters(*statuses: str) -> set[str]:
    return {painted(host(0, *[status] * 8), gpu=0) for status in statuses}


def test_a_letter_means_one_thing() -> None:
    words = [*STATES, *HOST_STATES.values(), *FINDING_WORDS.values()]
    found = {(each.letter, each.word) for each in words if each.letter}
    shared = [
        letter for letter, count in Counter(letter for letter, _ in found).items() if count > 1
    ]
    # Both are powered down.
    assert shared == ["z"]


def test_states_that_need_a_person_have_letters_of_their_own() -> None:
    words = [state.id for state in STATES if state.is_problem]
    assert len(letters(*words)) == len(words)
    assert all(map(str.isupper, letters(*words)))
    assert not letters(*words) & letters("busy", "free", "held-idle", "unknown")


@pytest.mark.parametrize("title", [painting.title for painting in PAINTINGS])
def test_a_host_that_does_not_answer_is_never_painted_by_a_value(title: str) -> None:
    for state in {*HOST_STATES} - {"ok"}:
        marks = {painted(host(0, *words, state=state), title) for words in (["busy"], ["free"])}
        assert len(marks) == 1, state
        assert painted(host(0, "busy"), title) not in marks, state


@pytest.mark.parametrize("title", ["utilization", "memory", "power", "temperature"])
@pytest.mark.parametrize("gpu", [None, 0])
def test_what_is_not_known_is_a_question_mark(title: str, gpu: int | None) -> None:
    bare = device(
        0,
        "unknown",
        gpu_utilization_percent=None,
        memory_used_bytes=None,
        power_usage_mw=None,
        temperature_celsius=None,
    )
    assert painted(host(0, devices=(bare,), expected_devices=1), title, gpu) == "?"


@pytest.mark.parametrize("gpu", [None, 0])
def test_a_gpu_in_instances_is_in_use_though_its_utilization_is_not_known(gpu: int | None) -> None:
    one = host(0, devices=(device(0, "in-use", gpu_utilization_percent=None),), expected_devices=1)
    assert painted(one, gpu=gpu) == "u"


@pytest.mark.parametrize("status", ["busy", "in-use"])
def test_the_letter_of_use_without_utilization_has_one_word(status: str) -> None:
    one = host(0, devices=(device(0, status, gpu_utilization_percent=None),), expected_devices=1)
    painter = Painter(PAINTINGS[0], host_rows(fleet((one,))), IN_ASCII)
    painter.glyph(Cell((0,), 0))
    assert "u in use" in "".join(segment.text for segment in painter.legend(80)[0])


def test_some_held_idle_is_seen_without_colours() -> None:
    assert painted(host(0, "held-idle", *["busy"] * 7)) == "h"


def test_heights_follow_the_value() -> None:
    heights = [
        painted(host(0, devices=(device(0, gpu_utilization_percent=value),), expected_devices=1))
        for value in (0.0, 35.0, 100.0)
    ]
    assert heights == ["0", "3", "9"]


def test_a_gpu_has_an_age_of_its_own() -> None:
    one = host(0, devices=(device(0), device(1, age_seconds=120.0)), expected_devices=2)
    assert [painted(one, "age", gpu) for gpu in (0, 1)] == ["0", "9"]


@pytest.mark.parametrize(
    ("words", "letter"),
    [
        (["free"] * 8, "."),
        (["held-idle"] * 4 + ["busy"] * 4, "h"),
        (["lost"] + ["busy"] * 7, "X"),
        (["hot"] + ["lost"] + ["busy"] * 6, "X"),
        (["busy"] * 7, "M"),
    ],
)
def test_a_host_has_the_letter_of_its_worst(words: list[str], letter: str) -> None:
    assert painted(host(0, *words)) == letter


@pytest.mark.parametrize(
    ("title", "shown"), [("held idle", "2"), ("free", "3"), ("XID errors", "x")]
)
def test_counts_are_digits(title: str, shown: str) -> None:
    words = ["held-idle"] * 2 + ["free"] * 3 + ["busy"] * 2
    devices = [device(index, word) for index, word in enumerate(words)]
    one = host(0, devices=(*devices, device(7, xid=79)))
    assert painted(one, title) == shown


@pytest.mark.parametrize(("title", "shown"), [("held idle", "1"), ("free", ".")])
def test_a_gpu_that_is_counted_is_one(title: str, shown: str) -> None:
    assert painted(host(0, "held-idle", "busy"), title, gpu=0) == shown


@pytest.mark.parametrize("gpu", [0, None])
def test_instances_that_a_filter_leaves_without_their_gpu_are_not_missing(gpu: int | None) -> None:
    devices = (device(0), device(7, "held-idle", parent_uuid="GPU-0"))
    (row,) = fitting(
        host_rows(fleet((host(0, devices=devices, expected_devices=1),))),
        lambda _, found: found is not None and found.status == "held-idle",
    )
    assert Painter(PAINTINGS[0], [row], IN_ASCII).glyph(Cell((0,), gpu))[0] == "h"


def test_the_gpu_that_is_worst_has_the_letter_of_what_is_found_about_it() -> None:
    gpus = tuple(device(n, sm_clock_mhz=1200 if n == 3 else 1980) for n in range(8))
    one = host(0, devices=gpus)
    assert [painted(one, gpu=n) for n in (2, 3)] == ["9", "s"]
    assert painted(one) == "s"
    recent = host(0, devices=(device(0, xid=31), *gpus[1:3]), expected_devices=3)
    assert [painted(recent, gpu=n) for n in (0, None)] == ["x", "x"]


def test_several_hosts_show_the_worst_of_them() -> None:
    rows = host_rows(Reducer().reduce(fleet((host(0), host(1, state="down"), host(2)))))
    assert Painter(PAINTINGS[0], rows, IN_ASCII).glyph(Cell((0, 1, 2)))[0] == "D"


@pytest.mark.parametrize("title", ["held idle", "free", "XID errors", "owner"])
def test_nothing_has_its_word_in_the_legend(title: str) -> None:
    painting = next(each for each in PAINTINGS if each.title == title)
    painter = Painter(painting, host_rows(fleet((host(0, *["unknown"] * 8),))), IN_ASCII)
    assert painter.glyph(Cell((0,), 0))[0] == "."
    (line,) = painter.legend(80)
    assert ". none" in "".join(segment.text for segment in line)


def test_a_user_of_several_instances_of_a_gpu_counts_once() -> None:
    instances = [
        device(0, "busy", label=f"0:{n}", parent_uuid="GPU-0", users=("ada",)) for n in range(3)
    ]
    whole = device(1, "busy", users=("ada",))
    painting = next(each for each in PAINTINGS if each.title == "owner")
    rows = host_rows(fleet((host(0, devices=(*instances, whole)),)))
    painter = Painter(painting, rows, IN_ASCII)
    painter.glyph(Cell((0,), None))
    (line,) = painter.legend(80)
    assert "ada 2" in "".join(segment.text for segment in line)


@pytest.mark.parametrize(("status", "is_height"), [("busy", True), ("lost", False)])
def test_a_digit_under_the_cursor_has_its_meaning_in_the_legend(
    status: str, is_height: bool
) -> None:
    rows = host_rows(fleet((host(0, *[status] * 8),)))
    painter = Painter(PAINTINGS[0], rows, PLAIN)
    assert painter.digit(Cell((0,), 0)).isdigit() is is_height
    legend = "".join(segment.text for line in painter.legend(80, 80) for segment in line)
    assert ("0-9 height under the cursor" in legend) is is_height


def test_each_painting_has_a_key_of_its_own() -> None:
    assert len({each.title for each in PAINTINGS}) == len(PAINTINGS)
