"""No test reads or writes the settings of whoever runs it, or fails for a stalled machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.nobody import Nobody, become_nobody


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of settings of everything that a test starts; there is none at first."""
    path = tmp_path / "gpudash" / "config.toml"
    monkeypatch.setenv("GPUDASH_CONFIG", str(path))
    return path


@pytest.fixture
def nobody(fakenvml: Path) -> Iterator[Nobody]:
    """Another user without rights; skips where that cannot be."""
    with become_nobody(fakenvml) as user:
        yield user


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run a test of real processes again when it failed: a deadline may be missed under load."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.flaky(reruns=2))
