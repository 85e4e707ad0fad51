import shutil
import subprocess

import pytest

from gpudash.cli import verbs
from tests.documents.manual import PAGE, written


def test_the_manual_is_current() -> None:
    # Pythons break lines of usage at different places.
    kept = PAGE.read_text(encoding="utf-8").split()
    assert kept == written().split(), "run python -m tests.documents.manual"


def test_every_command_has_its_part() -> None:
    page = written().replace("\\-", "-")
    assert all(f"gpudash {name}" in page for name in verbs.names())
    assert "EXIT STATUS" in page


def test_man_reads_it_without_a_warning() -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    run = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", str(PAGE)], capture_output=True, text=True, check=True
    )
    assert run.stderr == ""
