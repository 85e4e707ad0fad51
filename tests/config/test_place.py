from __future__ import annotations

import os
from pathlib import Path

import platformdirs
import pytest

from gpudash.config.file import path


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GPUDASH_CONFIG", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)


def test_the_file_is_where_the_platform_keeps_settings() -> None:
    folder = platformdirs.user_config_dir("gpudash", appauthor=False)
    assert path() == os.path.join(folder, "config.toml")


def test_xdg_config_home_moves_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert path() == str(tmp_path / "gpudash" / "config.toml")


def test_gpudash_config_names_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/elsewhere")
    monkeypatch.setenv("GPUDASH_CONFIG", str(tmp_path / "my.toml"))
    assert path() == str(tmp_path / "my.toml")
    monkeypatch.setenv("GPUDASH_CONFIG", "~/my.toml")
    assert path() == os.path.expanduser("~/my.toml")
