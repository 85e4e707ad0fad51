import ast
from pathlib import Path
from typing import cast, get_args

import pytest

import gpudash
from gpudash.model.device import DeviceState
from gpudash.model.state import STATES, is_suspended_on_purpose, unreadable_state
from tests.factories import make_device

UNREADABLE = [state for state in get_args(DeviceState) if state != "ok"]


def test_words_and_sentences_are_of_one_state_each() -> None:
    for field in ("id", "word", "sentence"):
        assert len({getattr(state, field) for state in STATES}) == len(STATES)


@pytest.mark.parametrize("wire", UNREADABLE)
def test_each_state_of_the_document_has_its_row(wire: DeviceState) -> None:
    state = unreadable_state(make_device(state=wire))
    assert state.id == wire


def test_a_readable_device_is_not_unreadable() -> None:
    assert unreadable_state(make_device()) is None


def test_a_state_of_a_newer_version_is_a_failure() -> None:
    state = unreadable_state(make_device(state=cast("DeviceState", "melted")))
    assert state.id == "failed"


@pytest.mark.parametrize("wire", UNREADABLE)
def test_an_unreadable_problem_is_loud(wire: DeviceState) -> None:
    device = make_device(state=wire)
    state = unreadable_state(device)
    assert state.word.isupper() is state.is_problem is not is_suspended_on_purpose(device)


def test_words_fit_the_column() -> None:
    assert all(len(state.word) <= 9 for state in STATES)


def test_words_stand_in_the_table_alone() -> None:
    # The others are common words, such as free.
    words = {state.word for state in STATES if " " in state.word or state.word.isupper()}
    root = Path(gpudash.__file__).parent
    found = {
        (path.relative_to(root).as_posix(), node.value)
        for path in root.rglob("*.py")
        for text in [path.read_text(encoding="utf-8")]
        if any(word in text for word in words)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and node.value in words
    }
    assert {path for path, _ in found} == {"model/state.py"}, sorted(found)
