"""No test reads or writes the settings of whoever runs it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.unprivileged import Unprivileged, become_unprivileged


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of settings of everything that a test starts; there is none at first."""
    path = tmp_path / "gpudash" / "config.toml"
    monkeypatch.setenv("GPUDASH_CONFIG", str(path))
    return path


@pytest.fixture
def nobody(fakenvml: Path) -> Iterator[Unprivileged]:
    """Another user without rights; skips where that cannot be."""
    with become_unprivileged(fakenvml) as user:
        yield user
