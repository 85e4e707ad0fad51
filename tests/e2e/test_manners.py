"""`gpudash completion` and `gpudash config` as processes."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e.forking import GPUDASH, run


def printed(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return run([*GPUDASH, *words], {**os.environ, **env})


@pytest.mark.parametrize("words", [("--help",), ("completion", "bash")], ids=["help", "completion"])
def test_what_is_only_printed_imports_no_psutil(words: tuple[str, ...]) -> None:
    found = printed(*words, PYTHONPROFILEIMPORTTIME="1")
    assert found.returncode == 0
    assert "gpudash.cli" in found.stderr
    assert "psutil" not in found.stderr


def test_a_file_of_settings_from_nothing(tmp_path: Path) -> None:
    place = tmp_path / "folder" / "config.toml"
    env = {"GPUDASH_CONFIG": str(place)}
    assert printed("config", "path", **env).stdout == f"{place}\n"
    assert "no such file" in printed("config", "validate", **env).stdout
    assert printed("config", "init", **env).returncode == 0
    assert place.stat().st_mode & 0o777 == 0o600
    assert "# interval = 1.0" in place.read_text()
    assert printed("config", "validate", **env).returncode == 0
    again = printed("config", "init", **env)
    assert (again.returncode, again.stderr.count("\n")) == (1, 1)
    assert "exists already" in again.stderr
    place.write_text('theme = "drak"\ninterval = -1\n')
    found = printed("config", "validate", **env)
    assert found.returncode == 1
    assert [line.startswith(str(place)) for line in found.stdout.splitlines()] == [True, True]
    below = printed("config", "init", GPUDASH_CONFIG=str(place / "config.toml"))
    assert (below.returncode, below.stderr.count("\n")) == (1, 1)
