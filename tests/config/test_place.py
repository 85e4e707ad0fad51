from __future__ import annotations

import os
from pathlib import Path

import platformdirs
import pytest

from gpudash.config.file import path


def test_the_file_is_where_the_platform_keeps_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    folder = platformdirs.user_config_dir("gpudash", appauthor=False)
    assert path({}) == os.path.join(folder, "config.toml")


def test_xdg_config_home_moves_it(tmp_path: Path) -> None:
    assert path({"XDG_CONFIG_HOME": str(tmp_path)}) == str(tmp_path / "gpudash" / "config.toml")


@pytest.mark.parametrize("folder", ["", "relative"])
def test_xdg_config_home_must_be_absolute(folder: str) -> None:
    assert path({"XDG_CONFIG_HOME": folder}) == path({})


def test_gpudash_config_names_the_file(tmp_path: Path) -> None:
    environ = {"GPUDASH_CONFIG": str(tmp_path / "my.toml"), "XDG_CONFIG_HOME": "/elsewhere"}
    assert path(environ) == str(tmp_path / "my.toml")
    assert path({"GPUDASH_CONFIG": "~/my.toml"}) == os.path.expanduser("~/my.toml")
