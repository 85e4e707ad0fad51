import ast
import asyncio
import gc
import os
import pty
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import ComposeResult
from textual.binding import Binding
from textual.events import Key, Paste
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widgets import Static

from gpudash import tui
from gpudash.feed.protocol import FeedState
from gpudash.tui.keyboard import Pastes
from gpudash.tui.link import Backlog, FrameLimiter, NonBlockingWriter, Reports
from gpudash.tui.terminal import TerminalApp
from gpudash.tui.views.view import View
from tests.factories import make_snapshot
from tests.tui.stage import busy_snapshot, on_screen, process_of

SOURCES = Path(tui.__file__).parent
OPTIONAL = {"terminal.py": {"_handle_exception"}, "keyboard.py": {"_xterm_parser"}}
"""Private names of Textual that may be missing."""


def test_nothing_depends_on_a_private_name_of_textual() -> None:
    trees = {path: list(ast.walk(ast.parse(path.read_text()))) for path in SOURCES.rglob("*.py")}
    nodes = [node for tree in trees.values() for node in tree]
    ours = {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
    ours |= {n.attr for n in nodes if isinstance(n, ast.Attribute) and is_stored(n)}
    ours |= {n.target.id for n in nodes if isinstance(n, ast.AnnAssign) and is_name(n.target)}
    for path, tree in trees.items():
        used = {n.attr for n in tree if isinstance(n, ast.Attribute) and not is_stored(n)}
        modules = [n.module or "" for n in tree if isinstance(n, ast.ImportFrom)]
        used |= {part for name in modules if name.startswith("textual") for part in name.split(".")}
        private = {name for name in used if re.match("_[^_]", name)} - {"_replace", "_exit"}
        assert private - ours <= OPTIONAL.get(path.name, set()), path


def is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name)


def is_stored(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store)


texts = st.text(alphabet="aq\x1b[]0;~2\x07\n", max_size=50)


def fed(*chunks: str) -> list[str | tuple[str]]:
    """What comes of input in chunks: keys as they are, each paste in a tuple."""
    pastes = Pastes()
    parts = [part for chunk in chunks for part in pastes.feed(chunk)]
    return [(part.text,) if isinstance(part, Paste) else part for part in parts]


def test_keys_around_a_paste_are_keys() -> None:
    assert fed("j\x1b[200~text\x1b[201~k") == ["j", ("text",), "k"]


def test_what_is_pasted_presses_no_key() -> None:
    assert fed("\x1b[200~\x1b]0;" + 40 * "x" + "\x1b[Aq\x1b[201~") == [("]0;" + 40 * "x" + "[Aq",)]


def test_lines_stay_apart() -> None:
    assert fed("\x1b[200~one\r\ntwo\x1b[201~") == [("one\r\ntwo",)]


@pytest.mark.parametrize("keys", ["\x1b", "\x1b[A", "\x1b[2~", "a\x1b"])
def test_a_key_that_begins_as_a_mark_does_is_a_key(keys: str) -> None:
    assert fed(keys) == [keys]


def test_an_endless_paste_is_cut() -> None:
    ((text,),) = fed("\x1b[200~", *["x" * 4096] * 300, "\x1b[201~")
    assert len(text) == 1 << 20


@given(st.lists(st.tuples(st.sampled_from("jkq"), texts), max_size=3), st.data())
def test_it_is_the_same_however_it_is_cut(
    journey: list[tuple[str, str]], data: st.DataObject
) -> None:
    whole = "".join(f"{key}\x1b[200~{text.replace('[201~', '')}\x1b[201~" for key, text in journey)
    # An Escape alone is a key: only where a paste begins is the mark not cut behind it.
    cuts = [
        cut for cut in range(1, len(whole)) if not whole[:cut].endswith(("j\x1b", "k\x1b", "q\x1b"))
    ]
    chosen = sorted(data.draw(st.sets(st.sampled_from(cuts), max_size=8)) if cuts else ())
    chunks = [whole[a:b] for a, b in zip([0, *chosen], [*chosen, len(whole)], strict=True)]
    assert fed(*chunks) == fed(whole)
    assert [part for part in fed(whole) if isinstance(part, str)] == [key for key, _ in journey]


class Question(ModalScreen[None]):
    """Records its keys; obeys those that arrive after it was shown."""

    BINDINGS: ClassVar[list[Any]] = [Binding("y", "answer")]

    def __init__(self) -> None:
        super().__init__()
        self.obeys_from = time.monotonic()
        self.heard: list[str] = []
        self.answers = 0

    def ignore_key(self, key: str, at: float) -> None:
        """Take note of nothing."""

    def on_key(self, event: Key) -> None:
        self.heard.append(event.key)

    def action_answer(self) -> None:
        self.answers += 1


async def test_a_screen_does_not_get_what_arrived_before_it_obeys() -> None:
    early = [Key("n", "n"), Paste("y"), Key("enter", None)]
    app, question = TerminalApp(), Question()
    async with app.run_test() as pilot:
        await app.push_screen(question)
        for event in [*early, Key("y", "y"), Key("enter", None)]:
            app.post_message(event)
        await pilot.pause()
        await pilot.press("x")
    assert question.heard == ["y", "enter", "x"]


class Opener(Static, can_focus=True):
    """Opens a question at a key that it does not take, and lets the key go its way."""

    async def on_key(self) -> None:
        await self.app.push_screen(Question())


class OpenerApp(TerminalApp):
    def compose(self) -> ComposeResult:
        yield Opener()


async def test_a_key_that_comes_back_to_the_app_is_not_for_a_screen_that_it_opened() -> None:
    app = OpenerApp()
    async with app.run_test() as pilot:
        await pilot.press("y")
        question = app.screen
        assert isinstance(question, Question)
        assert question.answers == 0
        await pilot.press("y")
        assert question.answers == 1


LONG = "x" * 300_000


def _nothing() -> None: ...


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


async def read(descriptor: int, wanted: int) -> bytes:
    data = b""
    loop = asyncio.get_running_loop()
    end = loop.time() + 60
    while len(data) < wanted and loop.time() < end:
        try:
            data += os.read(descriptor, 65536)
        except BlockingIOError:
            await asyncio.sleep(0)
    return data


async def test_short_text_is_sent_at_once(terminal: tuple[int, int]) -> None:
    ours, theirs = terminal
    output = NonBlockingWriter(theirs, asyncio.get_running_loop(), _nothing)
    output.write("hélas")
    assert not output.busy
    assert os.read(ours, 100) == "hélas".encode()
    output.close()


async def test_what_the_terminal_does_not_take_follows_in_order(terminal: tuple[int, int]) -> None:
    ours, theirs = terminal
    output = NonBlockingWriter(theirs, asyncio.get_running_loop(), _nothing)
    output.write(LONG)
    assert output.busy
    output.write("end")
    assert await read(ours, len(LONG) + 3) == (LONG + "end").encode()
    while output.busy:
        await asyncio.sleep(0)
    output.close()


async def test_vanished_terminal_is_no_error() -> None:
    ours, theirs = pty.openpty()
    output = NonBlockingWriter(theirs, asyncio.get_running_loop(), _nothing)
    os.close(ours)
    output.write("x")
    assert not output.busy
    output.close()
    os.close(theirs)


async def test_descriptor_of_the_shell_still_waits(terminal: tuple[int, int]) -> None:
    _ours, theirs = terminal
    output = NonBlockingWriter(theirs, asyncio.get_running_loop(), _nothing)
    assert os.get_blocking(theirs)
    output.close()


async def test_views_that_were_left_are_not_kept() -> None:
    def kept() -> tuple[int, int]:
        gc.collect()
        every = gc.get_objects()
        return sum(isinstance(o, View) for o in every), sum(type(o) is Strip for o in every)

    async with on_screen(busy_snapshot(), size=(120, 40)) as on:
        counts = []
        for _ in range(3):
            for key in ("d", "u", "h"):
                await on.press(key)
                await on.press("q")
            counts.append(kept())
        assert counts[-1] <= counts[0]


async def test_keys_that_come_faster_than_they_are_carried_out_are_dropped() -> None:
    class Counting(TerminalApp):
        handled = ""

        def on_key(self, event: Key) -> None:
            self.handled += event.key

    app = Counting()
    async with app.run_test() as pilot:
        for _ in range(3000):
            app.post_message(Key("x", "x"))
        deadline = time.monotonic() + 60
        while "y" not in app.handled:
            assert time.monotonic() < deadline
            await pilot.press("y")
        assert 256 <= app.handled.index("y") < 2000


def test_frames_that_follow_each_other_fast_wait_for_their_turn() -> None:
    now = [0.0]
    limiter = FrameLimiter(burst=3, per_second=10, clock=lambda: now[0])
    for _ in range(3):
        assert limiter.delay() == 0
        limiter.spend()
    assert limiter.delay() == pytest.approx(0.1, abs=0.01)
    now[0] = 0.1
    assert limiter.delay() == 0
    limiter.spend()
    assert limiter.delay() > 0
    now[0] = 60.0
    for _ in range(3):
        assert limiter.delay() == 0
        limiter.spend()
    assert limiter.delay() > 0


def test_frames_wait_for_the_answer_that_says_the_earlier_ones_are_seen() -> None:
    now = [0.0]
    backlog = Backlog(clock=lambda: now[0])
    backlog.asked()
    backlog.answered()
    backlog.sent(500)
    assert not backlog.wants_question
    backlog.sent(1000)
    assert backlog.wants_question
    backlog.asked()
    assert not backlog.wants_question
    assert backlog.delay() == 0
    backlog.sent(2000)
    assert backlog.wants_question
    backlog.asked()
    assert backlog.delay() > 0
    backlog.answered()
    assert backlog.delay() == 0, "what is behind the first question alone is unseen"
    backlog.sent(2000)
    assert backlog.delay() > 0
    backlog.answered()
    assert backlog.delay() == 0


def test_an_answer_that_never_comes_is_waited_for_once() -> None:
    now = [0.0]
    backlog = Backlog(clock=lambda: now[0])
    backlog.asked()
    backlog.answered()
    backlog.sent(9000)
    backlog.asked()
    now[0] = backlog.delay()
    assert 1 < now[0] < 10
    assert backlog.delay() == 0
    assert not backlog.is_asked
    backlog.sent(2000)
    assert backlog.wants_question, "the next answer counts again"


def test_what_was_sent_before_the_first_answer_is_waited_for_as_a_slow_link_takes() -> None:
    now = [0.0]
    backlog = Backlog(13_000, clock=lambda: now[0])
    backlog.asked()
    assert 1 < backlog.delay() < 2
    backlog.answered()
    assert backlog.delay() == 0
    backlog = Backlog(13_000, clock=lambda: now[0])
    backlog.asked()
    assert not backlog.is_asked, "a terminal that never answered is not waited for at the end"
    now[0] += backlog.delay()
    backlog.sent(100_000)
    assert backlog.delay() == 0
    assert not backlog.wants_question


@pytest.mark.parametrize("cut", range(1, 9))
def test_an_answer_counts_however_it_is_cut(cut: int) -> None:
    reports, answer, of_mode = Reports(), b"\x1b[12;345R", b"\x1b[?2048;0$y"
    reports.due = 4
    assert reports.count(b"j" + answer[:cut]) == 0
    assert reports.count(answer[cut:] + of_mode[:cut]) == 1
    assert reports.count(of_mode[cut:] + b"k") == 0
    assert reports.count(b"\x1b[A" + answer + of_mode) == 1
    assert reports.due == 0


LINKS = {
    "2 kB/s": (2_000, 0.0, 200),
    "2 kB/s far away": (2_000, 0.3, 200),
    "10 kB/s": (10_000, 0.02, 1_000),
    "a fast one": (10_000_000, 0.001, 3_072),
    "a fast one far away": (10_000_000, 0.3, 3_072),
}


@pytest.mark.parametrize("link", LINKS)
def test_what_a_link_carries_is_seen_by_how_long_answers_take(link: str) -> None:
    rate, away, window = LINKS[link]
    now = [0.0]
    backlog = Backlog(clock=lambda: now[0])
    for size in (5_000, 300, 900, 150, 250, 1_200, 300, 200):
        backlog.sent(size)
        backlog.asked()
        now[0] += size / rate + away
        backlog.answered()
    assert backlog.window == pytest.approx(window, rel=0.1)


def test_a_link_that_gets_fast_is_found_to_be() -> None:
    now = [0.0]
    backlog = Backlog(clock=lambda: now[0])
    for rate, window in ((2_000, 200), (1_000_000, 3_072)):
        for number in range(24):
            size = 150 + 300 * (number % 2)
            backlog.sent(size)
            backlog.asked()
            now[0] += size / rate + 0.05
            backlog.answered()
        assert backlog.window == window


async def test_what_is_held_back_is_drawn_once_when_its_turn_comes() -> None:
    async with on_screen(busy_snapshot(), captured=True, size=(120, 40)) as on:
        await on.sent()
        now = [0.0]
        on.driver.limiter = FrameLimiter(burst=1, per_second=20, clock=lambda: now[0])
        on.driver.take()
        for key in "jjj":
            await on.press(key)
        assert on.driver.take().count("m") > 0
        await on.press("j", "j")
        assert on.driver.take() == ""
        assert on.app.held_back()
        now[0] = 10.0
        while not on.driver.take():
            await asyncio.sleep(0)


async def test_the_keyboard_protocol_is_given_back_as_often_as_it_was_taken() -> None:
    async with on_screen(captured=True) as on:
        await on.sent()
        for data in ("\x1b[<u", "\x1b[>1u", "\x1b[>25u", "\x1b[<u", "\x1b[<u"):
            on.driver.write(data)
        assert on.driver.take() == "\x1b[>1u\x1b[<u\x1b[>25u\x1b[<u"


async def test_every_motion_of_the_mouse_is_not_asked_for() -> None:
    async with on_screen(captured=True) as on:
        await on.sent()
        for data in ("\x1b[?1003h", "\x1b[?1015h", "\x1b[?1003l", "\x1b]52;c;eA==\x07"):
            on.driver.write(data)
        assert on.driver.take() == "\x1b[?1002h\x1b[?1002l\x1b]52;c;eA==\x07"


@pytest.mark.parametrize("data", ["\x1b[2J", "\x1b[1;1Ha\x1b[5Cb\x1b[1;1H"])
async def test_what_is_not_understood_passes_and_all_is_drawn_again(data: str) -> None:
    async with on_screen(busy_snapshot(), captured=True, size=(100, 30)) as on:
        await on.sent()
        on.driver.write(data)
        sent = on.driver.take()
        assert sent == data
        on.terminal.feed(sent)
        on.app.refresh(layout=True)
        await on.sent()
        assert [line.rstrip() for line in on.terminal.lines] == [line.rstrip() for line in on.lines]


KEYS = ["j", "k", "pagedown", "end", "home", "full_stop", "comma", "r", "p", "h", "escape", "K"]


async def test_terminal_shows_what_textual_would_draw() -> None:
    rng = random.Random(1)
    async with on_screen(captured=True, size=(100, 30)) as on:
        for _ in range(20):
            step = rng.random()
            if step < 0.5:
                names = [
                    process_of(
                        number,
                        cpu_percent=rng.uniform(0, 400),
                        username=rng.choice(["alice", "漢字", "bé"]),
                    )
                    for number in range(rng.choice([0, 3, 30]))
                ]
                on.feed.give(make_snapshot(rng.choice([1, 4, 8]), processes=tuple(names)))
            elif step < 0.6:
                on.feed.change(rng.choice([FeedState.STALE, FeedState.LIVE]), rng.randint(5, 60))
            else:
                await on.press(rng.choice(KEYS))
            await on.sent()
            # pyte leaves the cell behind a wide character empty, Textual has no such cell.
            assert [line.rstrip() for line in on.terminal.lines] == [
                line.rstrip() for line in on.lines
            ]


async def test_nothing_is_sent_when_nothing_changed() -> None:
    async with on_screen(busy_snapshot(), captured=True, size=(120, 40)) as on:
        await on.sent()
        on.feed.give(busy_snapshot())
        assert await on.sent() == ""


async def test_one_changed_number_is_a_few_bytes() -> None:
    async with on_screen(busy_snapshot(3), captured=True, size=(120, 40)) as on:
        await on.sent()
        changed = (process_of(0, cpu_percent=12.0), process_of(1), process_of(2))
        on.feed.give(make_snapshot(8, processes=changed))
        assert 0 < len((await on.sent()).encode()) < 120
