"""Completions, as the shells themselves take them where they are installed."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.e2e.run import GPUDASH


def script(shell: str) -> str:
    argv = [*GPUDASH, "completion", shell]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_understands_them(shell: str) -> None:
    text = script(shell)
    assert "pcie-1080ti" in text
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    check = "--no-execute" if shell == "fish" else "-n"
    subprocess.run([shell, check], input=text, text=True, check=True, timeout=60)


def test_zsh_completes_values_behind_an_equals_sign() -> None:
    text = script("zsh")
    assert re.search(r'^ *"--demo=\[.*\]:NAME:\(dgx-h100 ', text, re.M)
    assert re.search(r'^ *\{-n,--count=\}"\[', text, re.M)
    assert re.search(r'^ *"--once\[', text, re.M)
