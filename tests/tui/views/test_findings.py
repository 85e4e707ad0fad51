"""The cursor among findings: it stands on one of them, whatever comes, goes or changes its rank."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from textual.events import MouseScrollDown

from gpudash.analysis.health.engine import Diagnosis
from gpudash.model.snapshot import Evidence, Finding, Snapshot
from gpudash.tui.views.device import DeviceView
from gpudash.tui.views.findings import FindingCursor, FindingsView
from gpudash.tui.views.process import ProcessView
from tests.factories import gpu_uuid, make_device, make_process, make_process_device, make_snapshot
from tests.tui.stage import OnScreen, on_screen


def trapped(**first: Any) -> Snapshot:
    """One process on eight GPUs works on one; what else is wrong is on the first."""
    shares = tuple(
        make_process_device(index=index, sm_utilization_percent=0 if index else 90)
        for index in range(8)
    )
    devices = tuple(
        make_device(
            index=index, gpu_utilization_percent=0 if index else 90, **({} if index else first)
        )
        for index in range(8)
    )
    process = make_process(devices=shares)
    snapshot = make_snapshot(devices=devices, processes=(process,), topology=None)
    return Diagnosis().examine(snapshot)


BAD_MEMORY = {"ecc_uncorrected_volatile_count": 3}


def line_of(on: OnScreen, words: str) -> int:
    (found,) = (number for number, line in enumerate(on.lines) if words in line)
    return found


@pytest.fixture
def cursor() -> FindingCursor:
    return FindingCursor()


async def test_worst_finding_stands_below_the_gpus_at_eighty_columns() -> None:
    async with on_screen(trapped()) as on:
        place = line_of(on, "on GPU 0-7 and works on GPU 0 alone")
        assert on.lines[place].startswith(" !  alice's python (PID 4242) holds ")
        assert on.lines[place - 1].split()[0] == "7"


async def test_key_that_shows_the_others_is_the_one_in_force() -> None:
    several = trapped(**BAD_MEMORY, remapped_rows_pending=True)
    async with on_screen(several, keys={"view.findings": ("f7",)}) as on:
        assert line_of(on, "more: F7")
        await on.press("d")
        assert line_of(on, "more: F7")


async def test_healthy_host_has_no_such_line() -> None:
    fine = Diagnosis().examine(make_snapshot(4, topology=None))
    async with on_screen(fine) as on:
        assert not any(line.startswith(" !") for line in on.lines)
        await on.press("w")
        assert any("Nothing is wrong" in line for line in on.lines)
        assert on.lines[-1].split() == ["q", "back", "h", "help"]
        await on.pilot.resize_terminal(40, 12)
        for _ in range(3):
            await on.pilot.pause()
        words = " ".join(" ".join(on.lines).split())
        assert "Nothing is wrong, as far as the driver reports" in words


async def test_all_findings_are_shown_with_proof_and_remedy() -> None:
    async with on_screen(trapped(**BAD_MEMORY), "w", size=(100, 40)) as on:
        text = on.text
        assert "1 critical, 1 warn" in text
        assert "GPU 0: ECC uncorrected volatile 3" in text
        assert "CUDA_VISIBLE_DEVICES=0" in text
        assert "PID 4242 on GPU 1: Used GPU memory 40.0 GiB; Utilization 0%" in text


async def test_enter_opens_the_device_or_the_process_of_a_finding() -> None:
    async with on_screen(trapped(**BAD_MEMORY), "w", "enter") as on:
        assert isinstance(on.app.screen, DeviceView)
        assert any("GPU 0 had uncorrectable memory errors" in line for line in on.lines)
        await on.press("q", "w", "j", "enter")
        assert isinstance(on.app.screen, ProcessView)


async def test_click_on_the_line_opens_the_view_and_on_a_finding_what_it_is_about() -> None:
    async with on_screen(trapped()) as on:
        await on.click(offset=(5, line_of(on, "works on GPU 0 alone")))
        assert isinstance(on.app.screen, FindingsView)
        await on.click(offset=(5, line_of(on, "XLA_PYTHON")))
        assert isinstance(on.app.screen, ProcessView)


async def test_clicks_beside_the_findings_open_nothing() -> None:
    async with on_screen(trapped(**BAD_MEMORY), "w", size=(80, 40)) as on:
        for height in (40, 12):
            await on.resize(80, height)
            await on.press("end")
            blank = [y for y, line in enumerate(on.lines) if not line.strip()]
            for y in (line_of(on, "1 critical, 1 warn"), *blank[:2], *blank[-1:]):
                await on.click(offset=(5, y))
                assert isinstance(on.app.screen, FindingsView), (height, y)


async def test_cursor_stays_on_the_first_finding_before_it_was_moved() -> None:
    async with on_screen(trapped(), "w") as on:
        await on.give(trapped(**BAD_MEMORY))
        assert line_of(on, "GPU 0 had uncorrectable memory errors") < line_of(on, "alice's python")
        await on.press("enter")
        assert isinstance(on.app.screen, ProcessView)


async def test_cursor_comes_into_view_again_when_worse_findings_push_it_down() -> None:
    async with on_screen(trapped(), "w", size=(80, 10)) as on:
        worse = {**BAD_MEMORY, "remapped_rows_failed": True, "recovery_action": "node-reboot"}
        await on.give(trapped(**worse))
        assert line_of(on, "alice's python")


async def test_what_is_read_stays_in_its_line_when_a_worse_finding_comes() -> None:
    warned = {"remapped_rows_pending": True, "clocks_event_reasons": ("sw-thermal-slowdown",)}
    async with on_screen(trapped(**warned), "w", "end", size=(80, 14)) as on:
        place = line_of(on, "needs a reset")
        await on.give(trapped(**warned, **BAD_MEMORY))
        assert line_of(on, "needs a reset") == place


async def test_findings_are_gone_through_by_pages_and_none_is_opened_once_they_are_over() -> None:
    many = trapped(**BAD_MEMORY, remapped_rows_pending=True, clocks_event_reasons=("hw-slowdown",))
    async with on_screen(many, "w", *["pagedown"] * 4, size=(60, 24)) as on:
        assert "TF_FORCE_GPU_ALLOW_GROWTH" in on.text
        await on.press(*["pageup"] * 4)
        assert line_of(on, "GPU 0 had uncorrectable memory errors")
        await on.press("end")
        await on.resize(60, 8)
        await on.give(replace(many, findings=(many.findings or ())[1:]))
        await on.press("up", "down")
        assert "--gpu-reset -i 0" in on.text
        await on.give(replace(many, findings=()))
        await on.press("j", "enter", "pageup")
        assert isinstance(on.app.screen, FindingsView)


async def test_time_of_a_finding_is_the_same_in_sentence_and_proof() -> None:
    idle = make_process_device(sm_utilization_percent=0)
    gpus = (make_device(gpu_utilization_percent=0),)
    first = make_snapshot(devices=gpus, processes=(make_process(devices=(idle,)),), topology=None)
    uptime = (first.host.uptime_seconds or 0.0) + 48.96
    diagnosis = Diagnosis()
    diagnosis.examine(first)
    later = replace(first, host=replace(first.host, uptime_seconds=uptime))
    async with on_screen(diagnosis.examine(later), "w", size=(120, 40)) as on:
        text = on.text
        assert len(re.findall("for 40 s", text)) == 1
        assert re.search(r"Idle 40 s\b", text)


async def test_a_few_values_stand_between_a_sentence_and_its_advice() -> None:
    async with on_screen(trapped(), "w", size=(120, 40)) as on:
        lines = [line for line in on.lines if line.startswith("    ")]
        (advice,) = (n for n, line in enumerate(lines) if "Start it with CUDA_DEVICE_ORDER" in line)
        subjects = [line.split(":")[0].strip() for line in lines[:advice] if line.strip()]
        assert subjects == ["PID 4242 on GPU 0", "PID 4242", "PID 4242 on GPU 1", "and 6 more"]


async def test_proof_that_is_left_out_is_counted_behind_the_last_that_is_whole() -> None:
    idle = make_process_device(sm_utilization_percent=0)
    processes = tuple(make_process(pid=pid, devices=(idle,)) for pid in range(100, 121))
    device = make_device(gpu_utilization_percent=0)
    snapshot = make_snapshot(devices=(device,), processes=processes, topology=None)
    async with on_screen(Diagnosis().examine(snapshot), "w", size=(120, 24)) as on:
        lines = on.lines
        last = max(number for number, line in enumerate(lines) if re.search(r"PID \d+ on", line))
        shown_count = sum(bool(re.search(r"PID \d+ on", line)) for line in lines)
        assert f"and {21 - shown_count} more" in lines[last + 1]


async def test_every_holder_of_a_gpu_is_among_the_proof() -> None:
    held = [Evidence(name="holder", value=f"python (PID {pid})", of="GPU 0") for pid in (7, 8)]
    numbers = [Evidence(name=name, value=1, of="GPU 0") for name in ("count", "errors")]
    told = finding("exited", 0, evidence=(*numbers, *held))
    async with on_screen(make_snapshot(1, findings=(told,)), "w") as on:
        assert "Holder python (PID 7), python (PID 8)" in on.text


def finding(rule: str, *gpus: int, **more: Any) -> Finding:
    fields: dict[str, Any] = {"level": "warn", "sentence": f"GPU {gpus}: {rule}"}
    uuids = tuple(map(gpu_uuid, gpus))
    return Finding(**{**fields, "rule": rule, "uuids": uuids, "indices": gpus, **more})


HELD = finding("held-idle", 0, 1, pids=(7, 8))
CAPPED = finding("power-capped", 2)
LOST = finding("lost", 3, level="critical")


def on(cursor: FindingCursor) -> str:
    return cursor.finding.rule


def test_it_stands_on_the_first_from_the_first_sample_on(cursor: FindingCursor) -> None:
    cursor.follow([HELD, CAPPED])
    cursor.follow([LOST, CAPPED, HELD])
    assert (on(cursor), cursor.index) == ("held-idle", 2)


@pytest.mark.parametrize(
    "later",
    [
        finding("held-idle", 0, 1, pids=(7, 8, 9)),
        finding("held-idle", 1, pids=(8,)),
        finding("held-idle", 0, 1, 2, 3, pids=(6, 7, 8, 9), level="info", sentence="others"),
    ],
)
def test_it_stays_while_processes_and_gpus_join_and_leave(
    later: Finding, cursor: FindingCursor
) -> None:
    cursor.follow([HELD])
    cursor.follow([LOST, finding("held-idle", 0, 1, pids=(70,)), later])
    assert cursor.index == 2


def test_another_owner_on_the_same_gpu_is_another_finding(cursor: FindingCursor) -> None:
    cursor.follow([HELD, CAPPED])
    cursor.follow([finding("held-idle", 0, 1, pids=(99,)), HELD])
    assert cursor.index == 1


def test_two_of_a_rule_on_one_gpu_are_distinguished_by_their_proof() -> None:
    def xid(code: int, *gpus: int) -> Finding:
        proofs = tuple(Evidence(name="xid_code", value=code, of=f"GPU {gpu}") for gpu in gpus)
        return finding("xid", *gpus, evidence=proofs)

    cursor = FindingCursor()
    cursor.follow([xid(63, 0)])
    cursor.follow([xid(48, 0), xid(63, 0, 1)])
    assert cursor.index == 1


def test_it_goes_back_to_one_that_a_sample_left_out(cursor: FindingCursor) -> None:
    cursor.follow([LOST, CAPPED, HELD])
    cursor.move_to(1, [LOST, CAPPED, HELD])
    cursor.follow([LOST, HELD])
    assert on(cursor) == "held-idle"
    cursor.follow([HELD, LOST])
    assert on(cursor) == "held-idle"
    cursor.follow([HELD, LOST, CAPPED])
    assert on(cursor) == "power-capped"


def test_it_does_not_go_back_once_it_was_moved(cursor: FindingCursor) -> None:
    cursor.follow([CAPPED, HELD, LOST])
    cursor.follow([HELD, LOST])
    cursor.move_to(1, [HELD, LOST])
    cursor.follow([CAPPED, HELD, LOST])
    assert on(cursor) == "lost"


def test_without_findings_it_stands_on_none_and_waits(cursor: FindingCursor) -> None:
    cursor.follow([])
    assert cursor.finding is None
    cursor.follow([CAPPED])
    cursor.follow([])
    assert (cursor.finding, cursor.index) == (None, 0)
    cursor.follow([HELD, CAPPED])
    assert on(cursor) == "power-capped"


RULES = [finding(rule, gpu) for rule in ("lost", "xid", "held-idle") for gpu in range(3)]


@given(st.sampled_from(RULES), st.lists(st.permutations(RULES), min_size=1, max_size=6))
def test_no_order_moves_it(chosen: Finding, orders: list[list[Finding]]) -> None:
    cursor = FindingCursor()
    cursor.follow(RULES)
    cursor.move_to(RULES.index(chosen), RULES)
    for order in orders:
        cursor.follow(order)
        assert cursor.finding == chosen
        assert order[cursor.index] == chosen


async def test_a_view_that_scrolls_shows_which_lines_are_in_view() -> None:
    async with on_screen(trapped(**BAD_MEMORY), "w", size=(80, 9)) as on:
        ((first, last, total),) = re.findall(r"(\d+)-(\d+) of (\d+)", on.lines[-1])
        assert first == "1"
        assert int(last) < int(total)
        await on.press("end")
        assert not on.lines[-1].strip().endswith(f" 1-{last} of {total}")
        assert f" of {total}" in on.lines[-1]


async def test_what_the_wheel_scrolls_to_is_shown_at_once() -> None:
    async with on_screen(trapped(**BAD_MEMORY), "w", size=(80, 9)) as on:
        assert re.search(r" 1-\d+ of", on.lines[-1])
        await on.pilot._post_mouse_events([MouseScrollDown], "#body")
        await on.pilot.pause()
        assert re.search(r" 4-\d+ of", on.lines[-1])
