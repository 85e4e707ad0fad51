import pytest

from tests.collect.nvml.tampering import Machine


@pytest.fixture
def single() -> Machine:
    """A host of one GPU."""
    return Machine("single")


@pytest.fixture
def dgx() -> Machine:
    """A host of eight GPUs with NVLinks."""
    return Machine("dgx-h100")
