import re
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.color import ColorSystem

from gpudash.analysis.inspection import Inspection, Variable
from gpudash.analysis.labels import visible_devices
from gpudash.analysis.table import process_rows
from gpudash.model.process import Process
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import clean, width
from gpudash.system.process_tree import Relative
from gpudash.system.processes import Usage
from gpudash.tui.draw import chart
from gpudash.tui.draw.line import Line
from gpudash.tui.theme import ASCII, load_theme
from gpudash.tui.views.process.facts import ProcessDetails
from gpudash.tui.views.process.page import ProcessSheet, branches, graphs, page
from tests.factories import (
    GIB,
    gpu_uuid,
    make_device,
    make_process,
    make_process_device,
    make_snapshot,
)
from tests.tui.past import sample, watched

chart.load()

THEME = load_theme(no_color=False, color_system=ColorSystem.TRUECOLOR)
PLAIN = load_theme(no_color=True, color_system=ColorSystem.TRUECOLOR, ascii=True)
SIZES = [(1, 1), (40, 8), (80, 22), (149, 10), (200, 58)]


def relative(pid: int, depth: int, **overrides: Any) -> Relative:
    fields = {"pid": pid, "devices": (), "command_line": (f"p{pid}",), **overrides}
    return Relative(make_process(**fields), depth)


def variable(name: str, value: str, *, is_secret: bool = False) -> Variable:
    return Variable(name=clean(name), value=clean(value), is_secret=is_secret)


def snapshot_with(process: Process) -> Snapshot:
    return make_snapshot(4, processes=(process,))


def inspected(snapshot: Snapshot, **overrides: Any) -> Inspection:
    fields: dict[str, Any] = {
        "pid": 4242,
        "taken_at": 1.0,
        "ancestors": (relative(1, -2), relative(100, -1)),
        "descendants": (relative(5000, 1), relative(5001, 2), relative(5002, 1)),
        "environment": (
            variable("USER", "alice"),
            variable("HF_TOKEN", "hunter2", is_secret=True),
            variable("CUDA_VISIBLE_DEVICES", "2,0"),
        ),
        "visible": visible_devices({"CUDA_VISIBLE_DEVICES": "2,0"}, snapshot.devices),
        "usage": Usage(
            working_directory=clean("/home/alice"), thread_count=34, open_file_count=112
        ),
    }
    return Inspection(**{**fields, **overrides})


def details_of(process: Process | None = None, **overrides: Any) -> ProcessDetails:
    snapshot = snapshot_with(process or make_process())
    fields: dict[str, Any] = {
        "row": process_rows(snapshot)[0],
        "snapshot": snapshot,
        "inspection": inspected(snapshot),
    }
    return ProcessDetails(**{**fields, **overrides})


def texts(lines: Iterable[Line]) -> list[str]:
    return ["".join(segment.text for segment in line) for line in lines]


def shown(seen: ProcessDetails, cells: int = 80, height: int = 22, theme: Any = THEME) -> str:
    return "\n".join(texts(page(seen, theme, cells, height).lines))


def test_head_says_who_it_is_and_how_it_is_doing() -> None:
    text = shown(details_of())
    for words in ("4242", "python", "of alice", "100%", "6.0 GiB", "34", "112", "/home/alice"):
        assert words in text
    assert "python train.py --batch 32" in text


def test_each_device_has_a_line_with_all_that_is_known() -> None:
    shares = (
        make_process_device(index=1, encoder_utilization_percent=7),
        make_process_device(index=3, used_gpu_memory_bytes=None, type="C+G"),
    )
    lines = texts(page(details_of(make_process(devices=shares)), THEME, 120, 38).lines)
    first = next(line for line in lines if line.startswith(" 1 "))
    second = next(line for line in lines if line.startswith(" 3 "))
    for words in ("H100", "40.0G", "50%", "85%", "40%", "7%"):
        assert words in first
    assert "C+G" in second
    assert "-" in second


def test_idle_time_is_said_in_words_and_only_where_it_is_long() -> None:
    words = "it has held 40.0 GiB for 12m00s"
    resting = make_process(cpu_percent=0.0, idle_seconds=720.0)
    assert f"idle: {words}" in shown(details_of(resting))
    assert f"busy on its CPU: {words}" in shown(details_of(make_process(idle_seconds=720.0)))
    assert "idle:" not in shown(details_of(make_process(idle_seconds=2.0)))
    assert "idle:" not in shown(details_of(make_process()))


@pytest.mark.parametrize(
    ("highest", "named"),
    [(0, "100%"), (89, "100%"), (101, "200%"), (240, "400%"), (480, "500%"), (799, "1000%")],
)
def test_sm_time_of_many_gpus_is_drawn_on_a_scale_that_fits(highest: int, named: str) -> None:
    shares = tuple(
        make_process_device(index=n, sm_utilization_percent=0 if n else highest) for n in range(8)
    )
    seen = details_of(make_process(devices=shares), series=lambda field, count: [0, float(highest)])
    lines = texts(graphs(seen, THEME, 80, 4, across=1))
    scale = lines[lines.index(next(line for line in lines if "UTIL " in line)) + 1]
    assert scale.split("┼")[0].strip() == named


def test_tree_is_drawn_around_the_process() -> None:
    lines = shown(details_of(), theme=THEME).split("\n")
    start = next(number for number, line in enumerate(lines) if "FAMILY" in line)
    assert [line[:44].rstrip() for line in lines[start + 1 : start + 7]] == [
        " 1 p1",
        " └─ 100 p100",
        "    └─ ▶ 4242 python train.py --batch 32",
        "       ├─ 5000 p5000",
        "       │  └─ 5001 p5001",
        "       └─ 5002 p5002",
    ]


def test_relatives_have_the_numbers_of_the_list_and_what_only_proc_has() -> None:
    child = make_process(pid=5000, command_line=("p5000",))
    both = make_snapshot(4, processes=(make_process(), child))
    parent = relative(100, -1, resident_memory_bytes=2 * GIB, cpu_percent=None)
    seen = inspected(both, ancestors=(parent._replace(thread_count=7),))
    details = details_of(inspection=seen, cpu_percents={parent.process.key: 31.0})
    stranger = make_snapshot(4, processes=(make_process(pid=5000, create_time=1.0),))
    for snapshot, held in ((both, "40.0G"), (stranger, "-")):
        text = shown(details._replace(snapshot=snapshot))
        parent_line, child_line = re.findall(r"(?m)^.* p(?:100|5000) .*$", text)
        assert parent_line.split()[-5:-2] == ["7", "31%", "2.0G"]
        assert (parent_line.split()[-1], child_line.split()[-1]) == ("-", held)


@given(st.lists(st.integers(0, 6), max_size=30))
def test_every_branch_ends_at_its_own_depth(steps: list[int]) -> None:
    depths = [0]
    for step in steps:
        depths.append(max(1, min(step, depths[-1] + 1)))
    for depth, stem in zip(depths, branches(depths, PLAIN), strict=True):
        assert len(stem) == 3 * depth
        assert stem.endswith(("|- ", "`- ")) or depth == 0


def test_secrets_are_hidden_until_asked_for() -> None:
    process = make_process(command_line=("serve", "--api-key", "hunter2", "--port=1"))
    hidden, revealed = details_of(process), details_of(process, shows_secrets=True)
    assert "hunter2" not in shown(hidden)
    assert "••••••" in shown(hidden)
    assert "******" in shown(hidden, theme=PLAIN)
    assert "1 secret: x shows them" in shown(hidden)
    assert shown(revealed).count("hunter2") >= 2
    assert "x hides them" in shown(revealed)


def test_environment_is_sorted_and_long_values_are_whole() -> None:
    long = "".join(f"/opt/{number}/bin:" for number in range(100))
    variables = (variable("PATH", long), variable("HOME", "/root"))
    seen = details_of()
    assert seen.inspection is not None
    text = shown(details_of(inspection=inspected(seen.snapshot, environment=variables)))
    assert text.index("HOME") < text.index("PATH")
    assert long in "".join(line[14:] for line in text[text.index("PATH") - 1 :].split("\n"))


def test_cuda_devices_are_named_as_the_process_sees_them() -> None:
    text = shown(details_of())
    assert "CUDA_VISIBLE_DEVICES = 2,0" in text
    assert "CUDA 0 = GPU 2 (H100 80GB HBM3)" in text
    assert "CUDA 1 = GPU 0 (H100 80GB HBM3)" in text
    assert "guess" not in text


def test_cuda_devices_with_long_names_stand_apart() -> None:
    name = "RTX PRO 6000 Blackwell Server Edition"
    devices = tuple(make_device(index=index, name=f"NVIDIA {name}") for index in range(3))
    snapshot = make_snapshot(devices=devices, processes=(make_process(),))
    seen = inspected(snapshot, visible=visible_devices({}, devices))
    lines = texts(page(details_of(snapshot=snapshot, inspection=seen), THEME, 148, 40).lines)
    wanted = [f"CUDA {index} = GPU {index} ({name})" for index in range(3)]
    listed = [line.split("  ") for line in lines if " = GPU " in line]
    assert [[text.strip() for text in line if text] for line in listed] == [wanted[:2], wanted[2:]]


def test_a_guessed_order_says_so() -> None:
    snapshot = snapshot_with(make_process())
    doubtful = visible_devices(
        {"CUDA_VISIBLE_DEVICES": "1", "NVIDIA_VISIBLE_DEVICES": "2,3"}, snapshot.devices
    )
    text = shown(details_of(inspection=inspected(snapshot, visible=doubtful)))
    assert "(a guess)" in text
    assert "in a container" in text


def test_what_is_not_read_yet_or_cannot_be_says_so() -> None:
    assert "reading…" in shown(details_of(inspection=None, waiting="reading"))
    nothing = Inspection(pid=4242, taken_at=1.0, reason="the host is simulated")
    assert "the host is simulated" in shown(details_of(inspection=nothing))
    snapshot = snapshot_with(make_process())
    partly = inspected(snapshot, environment=None, visible=None, reason="not permitted")
    text = shown(details_of(inspection=partly))
    assert "5000 p5000" in text
    assert "not permitted" in text


def test_a_process_that_is_gone_is_marked_and_recedes() -> None:
    lines = page(
        details_of(make_process(idle_seconds=900.0), mark="EXITED 12s AGO"), THEME, 80, 22
    ).lines
    assert "EXITED 12s AGO" in texts(lines)[0]
    assert not any("idle:" in text for text in texts(lines))
    styles = {segment.style for line in lines[1:] for segment in line}
    assert not styles & {THEME.base, THEME.strong, THEME.warn, *THEME.memory}


def test_a_long_command_line_is_shown_whole_further_below() -> None:
    words = tuple(f"--option-{number}=value" for number in range(60))
    text = shown(details_of(make_process(command_line=("python", *words))))
    assert "COMMAND LINE" in text
    assert text.count("--option-59=value") == 1
    assert "COMMAND LINE" not in shown(details_of())


def test_wide_screens_show_the_family_beside() -> None:
    seen = page(details_of(), THEME, 200, 58)
    assert "FAMILY" in texts(seen.lines)[0]
    assert "4242" in texts(seen.lines)[0]
    assert "ENVIRONMENT" in texts(seen.lines)[seen.environment]


def test_jumps_lead_to_the_headings() -> None:
    seen = page(details_of(), THEME, 80, 22)
    assert "FAMILY" in texts(seen.lines)[seen.tree]
    assert "ENVIRONMENT" in texts(seen.lines)[seen.environment]


def test_ascii_is_all_that_is_needed() -> None:
    seen = details_of(make_process(idle_seconds=99.0), series=lambda _f, points: [50.0] * points)
    unread = seen._replace(inspection=None, waiting="reading")
    for cells, height in SIZES:
        for each in (seen, unread):
            assert "".join(texts(page(each, PLAIN, cells, height).lines)).isascii()
    assert PLAIN.glyphs is ASCII


HOSTILE = st.text(max_size=200).map(clean)


@pytest.mark.parametrize("size", SIZES)
@settings(max_examples=15, deadline=None)
@given(words=st.lists(HOSTILE, max_size=5), values=st.lists(HOSTILE, max_size=8))
def test_any_text_fits_any_size(size: tuple[int, int], words: list[str], values: list[str]) -> None:
    process = make_process(command_line=tuple(words), username=words[0] if words else None)
    snapshot = snapshot_with(process)
    variables = tuple(variable(value[:9] or "N", value) for value in values)
    seen = inspected(snapshot, environment=variables, descendants=(relative(7, 1, name=None),))
    drawn: ProcessSheet = page(details_of(process, inspection=seen), THEME, *size)
    assert all(text.isprintable() for text in texts(drawn.lines))
    if size[0] >= 40:
        environment = texts(drawn.lines[drawn.environment :])
        assert all(width(text) <= size[0] for text in environment)


def test_hundreds_of_relatives_stay_on_the_page() -> None:
    below = tuple(relative(6000 + number, number % 40 + 1) for number in range(500))
    above = tuple(relative(10 + number, number - 200) for number in range(200))
    seen = inspected(snapshot_with(make_process()), ancestors=above, descendants=below)
    drawn = texts(page(details_of(inspection=seen), THEME, 80, 22).lines)
    assert any("500 below it  195 more above" in text for text in drawn)
    assert all(any(f" {6000 + number} p" in text for text in drawn) for number in (0, 250, 499))


@pytest.mark.parametrize("size", [(80, 22), (200, 58)])
def test_graphs_of_gpu_and_host_name_the_highest_value(size: tuple[int, int]) -> None:
    def series(field: str, points: int) -> list[float | None]:
        return [None, float(66 * GIB if field.endswith("bytes") else 130)] + [0.0] * (points - 2)

    text = shown(details_of(series=series), *size)
    for title in ("GPU-MEM 40.0G max 66.0G", "UTIL 85% max 130%", "RSS 6.0G max 66.0G"):
        assert title in text
    assert "CPU 100% max 130%" in text


def test_scale_of_memory_holds_what_a_lost_gpu_had() -> None:
    share = make_process_device(used_gpu_memory_bytes=None, uuid="GPU-gone")
    history = [float(40 << 30), None]
    seen = details_of(
        make_process(devices=(share,)),
        series=lambda field, points: (
            history * (points // 2) if "memory" in field else [None] * points
        ),
    )
    lines = texts(graphs(seen, THEME, 120, 8, across=4))
    assert any(line.split("┼")[0].strip() == "32.0G" for line in lines)


def test_scale_of_memory_holds_a_peak_of_one_second() -> None:
    def holding(gib: int) -> Process:
        return make_process(devices=(make_process_device(used_gpu_memory_bytes=gib * GIB),))

    seconds = 120.0
    peak = holding(70)
    history = watched(
        sample(second, [50], processes=(peak if second == seconds / 2 else holding(10),))
        for second in range(int(seconds) + 1)
    )
    seen = details_of(
        peak,
        span=seconds,
        series=lambda field, points: history.series(peak.key, field, seconds, points),
    )
    lines = texts(graphs(seen, THEME, 80, 8, across=1))
    named = [line.split("┼")[0].strip() for line in lines if "┼" in line]
    assert named[0] == "64.0G"


def test_scale_of_memory_ends_with_that_of_all_gpus() -> None:
    shares = tuple(make_process_device(index=n, uuid=gpu_uuid(n)) for n in range(2))
    process = make_process(devices=shares)
    devices = tuple(
        make_device(index=n, uuid=gpu_uuid(n), memory_total_bytes=40 * GIB) for n in range(2)
    )
    seen = details_of(
        process,
        snapshot=make_snapshot(devices=devices, processes=(process,)),
        series=lambda _field, points: [float(72 * GIB)] * points,
    )
    lines = texts(graphs(seen, THEME, 80, 4, across=1))
    assert lines[1].split("┼")[0].strip() == "80.0G"
