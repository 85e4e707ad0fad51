import os
import stat
from datetime import datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gpudash.tui.fleet.map import MapPage
from gpudash.tui.fleet.model import FleetModel
from gpudash.tui.screenshot import save
from tests.factories import make_host
from tests.feed.hand import HandFleetFeed
from tests.tui.stage import busy_snapshot, on_screen


def text_in(path: Path) -> str:
    return "".join(ElementTree.parse(path).getroot().itertext()).replace("\xa0", " ")


async def test_a_key_saves_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with on_screen(
        busy_snapshot(processes=1, host=make_host(hostname="../h\u00f6st")),
        captured=True,
        size=(100, 30),
    ) as on:
        on.feed.give(busy_snapshot(host=make_host(hostname="../h\u00f6st"), processes=5))
        await on.press("j", "S", "S")
        await on.until(lambda: len(os.listdir(tmp_path)) == 2)
        await on.until(lambda: "saved the screen" in on.dashboard.message)
        assert str(tmp_path) in on.dashboard.message
    first, second = sorted(tmp_path.iterdir(), key=lambda path: len(path.name))
    assert first.name.startswith("gpudash-h-st-")
    assert second.stem == f"{first.stem}-2"
    assert stat.S_IMODE(first.stat().st_mode) == 0o600
    for command in ("job0.py", "job4.py", "GPU-MEM"):
        assert command in text_in(first)


async def test_a_picture_needs_no_net_and_each_word_has_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with on_screen(busy_snapshot(processes=5), size=(100, 30)) as on:
        lines = on.lines
        await on.press("S")
        await on.until(lambda: "saved" in on.dashboard.message)
    (path,) = tmp_path.iterdir()
    assert "url(http" not in path.read_text()
    words = [
        (float(text.get("x", "")), text.text or "")
        for text in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")
        if text.get("textLength")
    ]
    assert all(word.split() == [word] for _, word in words)
    # As far from the left as on the screen, whatever stands before it.
    line = next(line for line in lines if "job4.py" in line)
    found = next(x for x, word in words if "job4.py" in word)
    pid, cell = next(x for x, word in words if word == "1004"), 12.2
    assert found - pid == pytest.approx((line.index("job4") - line.index("1004")) * cell, abs=1)


@pytest.mark.parametrize("are_many", [False, True])
async def test_before_the_first_sample_it_is_named_after_the_time_of_the_key(
    are_many: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = MapPage(FleetModel(HandFleetFeed())) if are_many else None
    async with on_screen(page=page, size=(100, 30)) as on:
        begun = datetime.now().replace(microsecond=0)
        await on.press("S")
        await on.until(lambda: os.listdir(tmp_path))
    (name,) = os.listdir(tmp_path)
    saved_at = datetime.strptime("-".join(name[:-4].split("-")[-2:]), "%Y%m%d-%H%M%S")
    assert begun <= saved_at <= datetime.now()


def test_a_folder_that_takes_no_file_leaves_it_to_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    assert str(tmp_path / "name.svg") in save("<svg/>", "name")
    assert (tmp_path / "name.svg").read_text() == "<svg/>"
    monkeypatch.setenv("HOME", str(gone))
    assert save("<svg/>", "name").startswith("screen not saved: No such file or directory")
