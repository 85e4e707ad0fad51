from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.events import Key, Paste
from textual.screen import ModalScreen

from gpudash.tui.terminal.input import OrderedKeys, Pastes

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

    def __init__(self) -> None:
        super().__init__()
        self.obeys_from = time.monotonic()
        self.heard: list[str] = []

    def on_key(self, event: Key) -> None:
        self.heard.append(event.key)


async def test_a_screen_does_not_get_what_arrived_before_it_obeys() -> None:
    early = [Key("n", "n"), Paste("y"), Key("enter", None)]
    app, question = OrderedKeys(), Question()
    async with app.run_test() as pilot:
        await app.push_screen(question)
        for event in [*early, Key("y", "y"), Key("enter", None)]:
            app.post_message(event)
        await pilot.pause()
        await pilot.press("x")
    assert question.heard == ["y", "enter", "x"]
