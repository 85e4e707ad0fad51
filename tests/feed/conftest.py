import pytest

from tests.feed.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()
