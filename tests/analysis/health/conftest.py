import pytest

from tests.analysis.health.examined import Watched


@pytest.fixture
def watched() -> Watched:
    return Watched()
