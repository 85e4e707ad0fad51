"""`gpudash completion` and `gpudash config` as processes."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.run import GPUDASH
from tests.waiting import LIMIT_SECONDS

pytestmark = pytest.mark.e2e


def run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*GPUDASH, *words],
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
    )


@pytest.mark.parametrize("words", [("--help",), ("completion", "bash")], ids=["help", "completion"])
def test_what_is_only_printed_imports_no_psutil(words: tuple[str, ...]) -> None:
    found = run(*words, PYTHONPROFILEIMPORTTIME="1")
    assert found.returncode == 0
    assert "gpudash.cli" in found.stderr
    assert "psutil" not in found.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_are_a_script_of_the_shell(shell: str, tmp_path: Path) -> None:
    script = tmp_path / "script"
    found = run("completion", shell)
    assert (found.returncode, found.stderr) == (0, "")
    script.write_text(found.stdout)
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    assert subprocess.run([shell, "-n", str(script)]).returncode == 0


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    script = tmp_path_factory.mktemp("completion") / "script"
    script.write_text(run("completion", "bash").stdout)
    return script


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["--query"], {"--query-gpu", "--query-compute-apps"}),
        (["--demo", "pcie"], {"pcie-1080ti"}),
        (["topo", "--demo", "mi"], {"mig"}),
        (["--theme", "lig"], {"light"}),
        (["--format", "csv"], {"csv", "csv,noheader", "csv,noheader,nounits"}),
        (["pick", "--format", ""], {"uuid", "index"}),
        (["--fail-on", "c"], {"critical"}),
        (["kill", "--signal", "US"], {"USR1", "USR2"}),
        (["record", "/etc/host"], {"/etc/hostname", "/etc/hosts"}),
        (["--replay", "/etc/hostn"], {"/etc/hostname"}),
    ],
)
def test_bash_completes(script: Path, words: list[str], completed: set[str]) -> None:
    ask = f"""
        source {script}
        COMP_WORDS=(gpudash {shlex.join(words)}) COMP_CWORD={len(words)}
        $(complete -p gpudash | sed 's/.*-F \\([^ ]*\\).*/\\1/') gpudash "${{COMP_WORDS[-1]}}"
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    found = subprocess.run(["bash", "-c", ask], capture_output=True, text=True)
    assert completed <= set(found.stdout.split())
    assert all(word.startswith(words[-1]) for word in found.stdout.split())


def test_a_file_of_settings_from_nothing(tmp_path: Path) -> None:
    place = tmp_path / "folder" / "config.toml"
    env = {"GPUDASH_CONFIG": str(place)}
    assert run("config", "path", **env).stdout == f"{place}\n"
    assert "no such file" in run("config", "validate", **env).stdout
    assert run("config", "init", **env).returncode == 0
    assert place.stat().st_mode & 0o777 == 0o600
    assert "# interval = 1.0" in place.read_text()
    assert run("config", "validate", **env).returncode == 0
    again = run("config", "init", **env)
    assert (again.returncode, again.stderr.count("\n")) == (1, 1)
    assert "exists already" in again.stderr


def test_mistakes_are_a_line_each(tmp_path: Path) -> None:
    place = tmp_path / "config.toml"
    place.write_text('theme = "drak"\ninterval = -1\n')
    found = run("config", "validate", GPUDASH_CONFIG=str(place))
    assert found.returncode == 1
    assert len(found.stdout.splitlines()) == 2
    assert all(str(place) in line for line in found.stdout.splitlines())


def test_what_is_no_shell_and_no_action() -> None:
    for words in (("completion", "tcl"), ("config",), ("config", "burn")):
        found = run(*words)
        assert (found.returncode, found.stdout, found.stderr.count("\n")) == (2, "", 1)


def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = run("config", "init", GPUDASH_CONFIG=str(tmp_path / "file" / "config.toml"))
    assert (found.returncode, found.stderr.count("\n")) == (1, 1)
