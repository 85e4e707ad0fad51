"""`gpudash install-nvidia-smi` links and removes nothing but its own link."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.test_smi import script

Install = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "early"
    folder.mkdir()
    return folder


@pytest.fixture
def install(tmp_path: Path, folder: Path) -> Install:
    """A function that runs the command, with the directory first in PATH."""
    program = script(tmp_path / "venv" / "gpudash")
    late = tmp_path / "late" / "nvidia-smi"
    late.parent.mkdir()
    late.write_text("#!/bin/sh\necho other\n")
    late.chmod(0o755)

    def run(*words: str, path: str = f"{folder}:{late.parent}") -> object:
        argv = [sys.executable, str(program), "install-nvidia-smi", str(folder), *words]
        env = {**os.environ, "PATH": path}
        return subprocess.run(
            argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
        )

    return run


def test_the_link_is_gpudash_and_goes_again(install: Install, folder: Path, tmp_path: Path) -> None:
    made = install("--yes")
    link = folder / "nvidia-smi"
    assert os.readlink(link) == str(tmp_path / "venv" / "gpudash")
    assert f"handed to {tmp_path / 'late' / 'nvidia-smi'}" in made.stdout
    called = subprocess.run([link, "-h"], capture_output=True, text=True, timeout=120)
    assert (called.returncode, called.stderr) == (0, "")
    assert called.stdout.startswith("NVIDIA System Management Interface -- v")
    assert install("--yes").returncode == 0
    removed = install("--yes", "--remove")
    assert removed.stdout.rstrip().endswith(f"is now {tmp_path / 'late' / 'nvidia-smi'}")
    assert not os.path.lexists(link)
    assert install("--yes", "--remove").returncode == 1


def test_a_link_to_a_program_that_is_gone_is_replaced(install: Install, folder: Path) -> None:
    (folder / "nvidia-smi").symlink_to("/gone/bin/gpudash")
    assert install("--yes").returncode == 0
    assert (folder / "nvidia-smi").exists()


@pytest.mark.parametrize("is_link", [True, False])
@pytest.mark.parametrize("words", [(), ("--remove",)])
def test_what_is_not_its_own_stays(
    install: Install, folder: Path, tmp_path: Path, is_link: bool, words: tuple[str, ...]
) -> None:
    link = folder / "nvidia-smi"
    if is_link:
        link.symlink_to(tmp_path / "late" / "nvidia-smi")
    else:
        link.write_text("their own")
    run = install("--yes", *words)
    assert (run.returncode, run.stderr.count("\n")) == (1, 1)
    assert "is not a link to gpudash" in run.stderr
    assert link.is_symlink() == is_link
    assert link.exists()


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ("late:early", "comes first in PATH"),
        ("late", "PATH does not name its directory"),
        ("early", "there is no other one"),
    ],
)
def test_what_the_place_in_path_means(
    install: Install, tmp_path: Path, order: str, said: str
) -> None:
    path = ":".join(str(tmp_path / name) for name in order.split(":"))
    assert said in install("--yes", path=path).stdout


def test_root_is_asked(install: Install, folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root is asked")
    assert install().returncode == 1
    assert not os.path.lexists(folder / "nvidia-smi")
