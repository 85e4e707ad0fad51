import os
from pathlib import Path

import platformdirs
import pytest

from gpudash.system.files import settings_file


def test_the_file_is_where_the_platform_keeps_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    folder = platformdirs.user_config_dir("gpudash", appauthor=False)
    assert settings_file({}) == os.path.join(folder, "config.toml")


def test_xdg_config_home_moves_it(tmp_path: Path) -> None:
    expected = str(tmp_path / "gpudash" / "config.toml")
    assert settings_file({"XDG_CONFIG_HOME": str(tmp_path)}) == expected


@pytest.mark.parametrize("folder", ["", "relative"])
def test_xdg_config_home_must_be_absolute(folder: str) -> None:
    assert settings_file({"XDG_CONFIG_HOME": folder}) == settings_file({})


def test_gpudash_config_names_the_file(tmp_path: Path) -> None:
    environ = {"GPUDASH_CONFIG": str(tmp_path / "my.toml"), "XDG_CONFIG_HOME": "/elsewhere"}
    assert settings_file(environ) == str(tmp_path / "my.toml")
    assert settings_file({"GPUDASH_CONFIG": "~/my.toml"}) == os.path.expanduser("~/my.toml")
