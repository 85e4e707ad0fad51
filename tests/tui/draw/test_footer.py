from __future__ import annotations

import pytest
from rich.color import ColorSystem

from gpudash.tui.draw.frame import action_at, footer
from gpudash.tui.keymap import OVERVIEW_KEYS, keys_on_devices, keys_while_stopped, labelled
from gpudash.tui.keymap.recorded import live_keys, recorded_keys
from gpudash.tui.theme import look

THEME = look(no_color=False, color_system=ColorSystem.TRUECOLOR)


def text(notice: str, cells: int) -> str:
    (line,) = footer(OVERVIEW_KEYS, notice, THEME, cells)
    return "".join(segment.text for segment in line)


@pytest.mark.parametrize("cells", range(30, 120, 7))
def test_notice_pushes_whole_keys_out(cells: int) -> None:
    notice = "killed 23741 and the rest"
    shown = text(notice, cells)
    assert shown.rstrip().endswith(notice)
    left = shown.rpartition(notice)[0].strip()
    every = [f"{key.shown} {key.label}" for key in labelled(OVERVIEW_KEYS)]
    words = left.split()
    assert words == " ".join(every).split()[: len(words)]
    assert not words or any(left.endswith(entry) for entry in every)


def test_a_key_that_a_notice_pushed_out_cannot_be_clicked() -> None:
    assert action_at(OVERVIEW_KEYS, "", 14, 30) is not None
    assert action_at(OVERVIEW_KEYS, "killed 23741 and the rest", 14, 30) is None


def test_a_line_too_short_for_any_key_shows_the_beginning_of_one() -> None:
    assert text("", 5).strip() == "q qu"


def test_eighty_cells_hold_the_keys_of_all_views() -> None:
    (line,) = footer(live_keys(OVERVIEW_KEYS), "", THEME, 80)
    shown = "".join(segment.text for segment in line)
    for entry in ("⏎ open", "d GPU", "w why", "m links", "u users"):
        assert entry in shown


def test_what_lets_time_go_on_is_told_first_while_it_stands_still() -> None:
    keys = live_keys(OVERVIEW_KEYS)
    assert "pause" in [key.label for key in labelled(keys)]
    stopped = [key.label for key in labelled(keys_while_stopped(tuple(keys)))]
    assert stopped[:3] == ["quit", "help", "live"]
    assert "pause" not in stopped
    recorded = keys_while_stopped(tuple(recorded_keys(OVERVIEW_KEYS)))
    assert [key.label for key in labelled(recorded)][:3] == ["quit", "help", "play"]


def test_keys_of_the_devices_need_no_process() -> None:
    shown = {key.id: key.label for key in labelled(keys_on_devices(OVERVIEW_KEYS))}
    assert "process.kill" not in shown
    assert shown["move.turn"] == "processes"
    assert "view.process" in shown
