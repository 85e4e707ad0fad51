from typing import get_args

import pytest

from gpudash.model.device import DeviceState
from gpudash.model.state import is_left_alone, state_words
from tests.factories import make_device

UNREADABLE = [state for state in get_args(DeviceState) if state != "ok"]


def test_each_state_has_words_of_its_own() -> None:
    words = [state_words(make_device(state=state)) for state in UNREADABLE]
    for way in zip(*words, strict=True):
        assert len(set(way)) == len(UNREADABLE)


@pytest.mark.parametrize("state", UNREADABLE)
def test_what_is_wrong_is_loud(state: DeviceState) -> None:
    device = make_device(state=state)
    assert state_words(device).word.isupper() is not is_left_alone(device)
