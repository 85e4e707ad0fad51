import pytest

from gpudash.analysis.history import History


@pytest.fixture
def history() -> History:
    return History()
