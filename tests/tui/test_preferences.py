import asyncio
import os
import threading
from pathlib import Path

import pytest

from gpudash.config.file import load
from gpudash.config.settings import Settings
from gpudash.tui.preferences import INTERVALS, Preferences, choices, next_interval
from tests.factories import gpu_uuid, make_process, make_process_device, make_snapshot
from tests.tui.stage import busy_snapshot, on_screen

WIDE = (140, 40)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def test_the_defaults_are_valid_choices() -> None:
    known = choices()
    assert Settings().theme in known.themes
    assert Settings().sort in known.columns


async def test_the_file_arranges_the_screen(path: Path) -> None:
    path.write_text('sort = "pid"\nreverse = true\nhidden_panels = ["host"]\n')
    async with on_screen(busy_snapshot(4), preferences=Preferences(str(path)), size=WIDE) as on:
        assert [row.process.pid for row in on.listing.rows] == [1000, 1001, 1002, 1003]
        assert not any("LOAD" in line for line in on.lines)


async def test_columns_stand_in_the_order_of_the_file(path: Path) -> None:
    path.write_text('columns = ["command", "pid"]\nsort = "user"\n')
    async with on_screen(busy_snapshot(4), preferences=Preferences(str(path)), size=WIDE) as on:
        await on.press("greater_than_sign", "dollar_sign")
        heading = next(line for line in on.lines if "PID" in line)
        assert heading.index("COMMAND") < heading.index("PID")
        assert "GPU-MEM" not in heading


async def test_what_was_changed_on_screen_is_saved_and_nothing_else(path: Path) -> None:
    path.write_text('# mine\ntheme = "dark"\n')
    preferences = Preferences(str(path), interval=5.0, read_only=True)
    async with on_screen(busy_snapshot(4), preferences=preferences, size=WIDE) as on:
        await on.press("s", "home", "enter", "H", "r")
    preferences.finish()
    text = path.read_text()
    assert text.startswith("# mine\n")
    assert 'sort = "pid"' in text
    assert "reverse" not in text
    assert "hidden_panels" not in text
    assert "interval" not in text
    assert "read_only" not in text


async def test_a_single_key_saves_nothing_until_it_is_asked_to(path: Path) -> None:
    preferences = Preferences(str(path))
    shares = tuple(make_process_device(index=n, uuid=gpu_uuid(n)) for n in (0, 1))
    spread = make_snapshot(4, processes=(make_process(devices=shares),))
    async with on_screen(spread, preferences=preferences, size=WIDE) as on:
        await on.press("r", "H", "x", "full_stop", "plus", "minus", "plus")
        assert preferences.is_saved
        await on.press("f12")
        while "saved: the order, the panels and the interval" not in on.lines[-1]:
            await on.pilot.pause(0.02)
        wanted = preferences.current
    assert preferences.is_saved
    assert load(str(path), choices())[0] == wanted
    assert (wanted.hidden_panels, wanted.interval, wanted.per_gpu) == (("host",), 2.0, True)


async def test_a_file_that_cannot_be_changed_is_never_called_saved(path: Path) -> None:
    preferences = Preferences(str(path))
    path.write_text("theme = \n")
    async with on_screen(None, "f12", preferences=preferences, size=(200, 40)) as on:
        assert "nothing to save" in on.lines[-1]
        await on.press("r", "f12")
        seen = ""
        while "settings not saved to" not in seen:
            await on.pilot.pause(0.02)
            seen = on.lines[-1]
            assert "saved: " not in seen
    assert path.read_text() == "theme = \n"


async def test_why_a_save_failed_is_shown_while_a_dialog_is_up(path: Path) -> None:
    path.mkdir()
    preferences = Preferences(str(path))
    async with on_screen(busy_snapshot(4), "C", preferences=preferences, size=(44, 12)) as on:
        await on.press("space")
        await on.until(lambda: "settings not saved to" in on.text)
        assert on.app.screen.is_modal
        assert "on or off" in on.text
        await on.press("escape")
        assert "settings not saved to" in on.text


def test_who_asked_for_a_save_is_told_when_it_is_written(path: Path) -> None:
    path.mkdir()
    failing, mended, told = threading.Event(), threading.Event(), threading.Event()

    def wait(_reason: str) -> None:
        failing.set()
        mended.wait(60)

    preferences = Preferences(str(path))
    preferences.change(sort="pid")
    preferences.save(wait, told.set)
    assert failing.wait(60)
    preferences.change(sort="user")
    preferences.save(saved=told.set)
    preferences.change(sort="cpu")
    preferences.save()
    assert not told.is_set()
    path.rmdir()
    mended.set()
    assert told.wait(60)
    assert 'sort = "cpu"' in path.read_text()


async def test_without_a_file_there_is_nothing_to_save_to() -> None:
    async with on_screen(None, "f12", size=WIDE) as on:
        assert "no settings file" in on.lines[-1]


def test_without_a_file_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    preferences = Preferences(None)
    preferences.change(sort="pid")
    preferences.finish()
    assert preferences.is_saved
    assert list(tmp_path.iterdir()) == []


def test_a_change_that_cannot_be_saved_is_reported_and_tried_again(path: Path) -> None:
    path.mkdir()
    reasons: list[str] = []
    told = threading.Event()

    def tell(reason: str) -> None:
        reasons.append(reason)
        told.set()

    preferences = Preferences(str(path))
    preferences.change(sort="pid")
    preferences.save(tell)
    assert told.wait(60)
    preferences.finish(reasons.append)
    assert [reason.partition(" to ")[0] for reason in reasons] == ["settings not saved"] * 2
    path.rmdir()
    preferences.finish(reasons.append)
    assert 'sort = "pid"' in path.read_text()
    assert preferences.is_saved
    assert len(reasons) == 2


def test_one_thread_saves_however_long_it_takes(path: Path) -> None:
    path.mkdir()
    held = threading.Event()
    reasons: list[str] = []

    def hang(reason: str) -> None:
        reasons.append(reason)
        held.wait(60)

    preferences = Preferences(str(path))
    before = threading.active_count()
    for sort in ("pid", "user", "cpu", "job"):
        preferences.change(sort=sort)
        preferences.save(hang)
        assert threading.active_count() == before + 1
    path.rmdir()
    held.set()
    preferences.finish()
    assert 'sort = "job"' in path.read_text()
    assert preferences.is_saved
    assert len(reasons) <= 1


def test_what_was_mended_by_hand_after_a_failed_save_stays(path: Path) -> None:
    path.write_text('theme = "light"\n')
    reasons: list[str] = []
    preferences = Preferences(str(path))
    path.write_text('theme = "light"\ninterval =')
    preferences.change(sort="pid")
    preferences.finish(reasons.append)
    assert ["line 2" in reason for reason in reasons] == [True]
    mended = '# mended\ntheme = "contrast"\ninterval = 5  # slower\nfrom_a_newer_version = 1\n'
    path.write_text(mended)
    preferences.finish(reasons.append)
    assert path.read_text() == f'{mended}sort = "pid"\n'
    assert len(reasons) == 1


async def test_a_save_that_fails_after_the_screen_has_gone_is_quiet(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[object] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    preferences = Preferences(str(path))
    path.mkdir()
    async with on_screen(preferences=preferences) as on:
        on.app.prefer(sort="pid")

    def leave() -> None:
        loop = asyncio.new_event_loop()

        async def save() -> None:
            on.app.save_changes()

        loop.run_until_complete(save())
        loop.close()

    leaving = threading.Thread(target=leave)
    leaving.start()
    leaving.join()
    preferences.finish()
    assert raised == []


async def test_all_mistakes_are_listed_in_whole(path: Path) -> None:
    path.write_text('theme = "drak"\nintervall = 3\n[keys]\n"view.links" = ["K"]\n')
    preferences = Preferences(str(path))
    async with on_screen(preferences=preferences, size=(80, 30)) as on:
        assert "3 mistakes in the settings: ! lists them" in on.lines[-1]
        await on.press("exclamation_mark")
        text = " ".join(" ".join(on.lines).replace("│", "").split())
        assert "3 mistakes in the settings" in text
        assert "view.links takes the key K from process.kill" in text
        for mistake in preferences.mistakes:
            assert "".join(mistake.split()) in text.replace(" ", "")


async def test_the_key_that_lists_mistakes_is_the_one_in_force(path: Path) -> None:
    path.write_text('theme = "drak"\nintervall = 3\n[keys]\n"screen.mistakes" = ["f7"]\n')
    async with on_screen(preferences=Preferences(str(path)), size=(80, 30)) as on:
        assert "2 mistakes in the settings: F7 lists them" in on.lines[-1]


def test_a_folder_that_hangs_does_not_hold_the_end(path: Path) -> None:
    os.mkfifo(path)
    before = threading.active_count()
    preferences = Preferences(str(path))
    preferences.change(sort="pid")
    preferences.finish()
    assert threading.active_count() <= before + 1
    assert preferences.mistakes


async def test_keys_are_remapped_throughout(path: Path) -> None:
    path.write_text('[keys]\n"time.pause" = ["f7"]\n"sort.reverse" = ["p"]\n')
    async with on_screen(
        busy_snapshot(4), preferences=Preferences(str(path)), size=(200, 40)
    ) as on:
        await on.press("p")
        assert on.dashboard.time.is_live
        assert not on.listing.descending
        await on.press("r")
        assert not on.listing.descending
        assert "F7 pause" in on.lines[-1]
        await on.press("f7")
        assert not on.dashboard.time.is_live
        assert "F7 live" in on.lines[-1]


async def test_an_action_can_be_left_without_keys(path: Path) -> None:
    path.write_text('[keys]\n"screen.quit" = ["ctrl+x"]\n"time.pause" = []\n')
    async with on_screen(None, "p", "q", preferences=Preferences(str(path)), size=WIDE) as on:
        assert on.dashboard.time.is_live
        assert on.app.is_running
        await on.press("ctrl+x")
    assert on.app.return_code == 0


@pytest.mark.parametrize(
    "keys",
    [
        '"screen.quit" = []',
        '"time.pause" = ["q"]\n"sort.reverse" = ["ctrl+c"]\n"screen.help" = ["f10", "x"]',
    ],
)
async def test_ctrl_c_quits_where_no_other_key_would(path: Path, keys: str) -> None:
    path.write_text(f"[keys]\n{keys}\n")
    preferences = Preferences(str(path))
    assert f"{path}: keys.screen.quit: no key would quit: Ctrl-C still does" in preferences.mistakes
    async with on_screen(None, "q", preferences=preferences, size=WIDE) as on:
        assert on.app.is_running
        await on.press("ctrl+c")
    assert on.app.return_code == 0
    assert preferences.is_saved


async def test_an_unknown_action_and_a_clash_are_reported(path: Path) -> None:
    path.write_text('[keys]\n"time.pauze" = ["x"]\n"sort.reverse" = ["p"]\n')
    mistakes = Preferences(str(path)).mistakes
    assert len(mistakes) == 2
    assert "did you mean time.pause" in mistakes[0]
    assert "sort.reverse takes the key p from time.pause" in mistakes[1]


def test_each_removed_name_is_one_mistake_and_the_rest_counts(path: Path) -> None:
    path.write_text(
        """
        theme = "dracula"
        interval = 2.0

        [keys]
        "device.shared" = ["v"]
        "device.fit" = ["V"]
        "move.devices_up" = ["("]
        "move.devices_down" = [")"]
        "sort.reverse" = ["ctrl+y"]
        """
    )
    preferences = Preferences(str(path))
    names = ["dracula", "device.shared", "device.fit", "move.devices_up", "move.devices_down"]
    for name, mistake in zip(names, preferences.mistakes, strict=True):
        assert f'"{name}" is unknown' in mistake
        assert "\n" not in mistake
    assert preferences.current == Settings(interval=2.0, keys={"sort.reverse": ("ctrl+y",)})


def test_the_interval_steps_through_round_numbers() -> None:
    assert next_interval(1.0, 1) == 2.0
    assert next_interval(1.0, -1) == 0.5
    assert next_interval(3.0, 1) == 5.0
    assert next_interval(120.0, -1) == INTERVALS[-1]


@pytest.mark.parametrize(("seconds", "step"), [(120.0, 1), (60.0, 1), (0.1, -1)])
def test_the_interval_stays_where_there_is_no_longer_or_shorter_one(
    seconds: float, step: int
) -> None:
    assert next_interval(seconds, step) == seconds
