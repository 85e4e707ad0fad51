"""gpudash started in a folder where a stranger has left modules: none of them is ever imported."""

import subprocess
import sys
from pathlib import Path

import pytest

import gpudash
from tests.e2e.forking import run
from tests.e2e.terminal import Terminal
from tests.fakenvml.build import environment

NAMES = "asyncio gpudash json msgspec plotext pynvml re rich signal subprocess textual tomllib"
POISON = "import os; os.close(os.open({!r}, os.O_CREAT)); os._exit(77)\n"

ENTRY = "import sys; from gpudash.cli import main; sys.exit(main())\n"
"""What an installer writes as the command `gpudash`."""


@pytest.fixture
def poisoned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a folder of modules that leave a trace when they are imported; return the trace."""
    trace, folder = tmp_path / "trace", tmp_path / "folder"
    folder.mkdir()
    for name in NAMES.split():
        (folder / f"{name}.py").write_text(POISON.format(str(trace)))
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(POISON.format(str(trace)))
    monkeypatch.chdir(folder)
    return trace


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    script = tmp_path / "bin" / "gpudash"
    script.parent.mkdir()
    script.write_text(ENTRY)
    monkeypatch.setenv("PYTHONPATH", str(Path(gpudash.__file__).parents[1]))
    return [sys.executable, str(script)]


def test_the_poison_works(poisoned: Path) -> None:
    subprocess.run([sys.executable, "-c", "import msgspec"], check=False)
    assert poisoned.exists()


def test_the_screen_and_its_collector_import_none(
    fakenvml: Path, poisoned: Path, command: list[str]
) -> None:
    env = environment(fakenvml, DEVICES=1)
    with Terminal([*command, "--interval", "0.2"], env=env) as terminal:
        terminal.wait_for("A100")
        terminal.wait_until(lambda: 1000 in terminal.modes)
        terminal.send("d", then="back")
        terminal.send("q", then="quit")
        assert not poisoned.exists()


@pytest.mark.parametrize("words", [("--once", "--json"), ("doctor",), ("pick",)], ids=" ".join)
def test_commands_import_none(
    fakenvml: Path, poisoned: Path, command: list[str], words: tuple[str, ...]
) -> None:
    assert run([*command, *words], environment(fakenvml, DEVICES=1, LOAD="idle")).stdout
    assert not poisoned.exists()
