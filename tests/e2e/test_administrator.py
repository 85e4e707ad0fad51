"""/etc/gpudash/config.toml forbids signals whatever a user sets, seen in a namespace of its own."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.forking import GPUDASH
from tests.e2e.terminal import Terminal
from tests.waiting import LIMIT_SECONDS


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    """A folder that takes the place of /etc; skips where no namespace can be made."""
    folder = tmp_path / "etc"
    (folder / "gpudash").mkdir(parents=True)
    for name in ("passwd", "group", "ld.so.cache", "nsswitch.conf"):
        if os.path.exists(f"/etc/{name}"):
            shutil.copy(f"/etc/{name}", folder / name)
    if subprocess.run(inside(folder, "true"), capture_output=True).returncode:
        pytest.skip("no mount namespace can be made here")
    return folder


def inside(etc: Path, *argv: str) -> list[str]:
    script = 'mount --bind "$0" /etc && exec "$@"'
    return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, str(etc), *argv]


def write(etc: Path, text: str) -> None:
    (etc / "gpudash" / "config.toml").write_text(text)


def test_no_user_undoes_it(etc: Path, tmp_path: Path) -> None:
    write(etc, "read_only = maybe")
    own = tmp_path / "own.toml"
    own.write_text("read_only = false\n")
    environ = {**os.environ, "GPUDASH_CONFIG": str(own), "GPUDASH_READ_ONLY": "0"}
    for options in ([], ["--no-config"]):
        argv = inside(etc, *GPUDASH, "kill", "4194304", "--yes", "--demo", *options)
        ended = subprocess.run(
            argv, env=environ, capture_output=True, text=True, timeout=LIMIT_SECONDS
        )
        assert ended.returncode == 1
        assert "read-only (/etc/gpudash/config.toml): nothing was sent" in ended.stderr
        assert ended.stderr.count("\n") == 1


def test_a_folder_that_cannot_be_read_forbids_signals(etc: Path) -> None:
    (etc / "gpudash").rmdir()
    (etc / "gpudash").symlink_to("gpudash")
    argv = inside(etc, *GPUDASH, "kill", "4194304", "--yes", "--demo")
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "read-only (/etc/gpudash/config.toml): nothing was sent" in ended.stderr


def test_the_screen_offers_no_kill(etc: Path) -> None:
    write(etc, "read_only = true\n")
    argv = inside(etc, *GPUDASH, "--demo", "--no-config")
    with Terminal(argv, env=dict(os.environ)) as terminal:
        terminal.wait_for("quit")
        assert "kill" not in terminal.lines[-1]


def test_without_a_word_of_the_administrator_signals_are_allowed(etc: Path) -> None:
    write(etc, "read_only = false\n")
    argv = inside(etc, *GPUDASH, "kill", "4194304", "--yes", "--demo", "--no-config")
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    assert "read-only" not in ended.stderr
