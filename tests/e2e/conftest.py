"""No test reads or writes the settings of whoever runs it."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of settings of everything that a test starts; there is none at first."""
    path = tmp_path / "gpudash" / "config.toml"
    monkeypatch.setenv("GPUDASH_CONFIG", str(path))
    return path
