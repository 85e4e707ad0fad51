"""Completions, as the shells themselves take them where they are installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import lru_cache

import pytest

from tests.e2e.run import GPUDASH


@lru_cache
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
    assert re.search(r'^ *"--query-gpu=\[.*\]:FIELDS:_values -s , ', text, re.M)


BASH = r"""
[[ $(complete -p gpudash) =~ -F\ ([^ ]+) ]]
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
${BASH_REMATCH[1]}
printf '%s\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("--theme = l", ["light"]),
        ("--fail-on =", ["info", "warn", "critical"]),
        ("--sort m", ["memory_bandwidth", "mem", "memory"]),
        ("--sort user,m", ["user,memory_bandwidth", "user,mem", "user,memory"]),
        ("--query-compute-apps = pi", ["pid"]),
        ("--query-gpu = index,memory.r", ["index,memory.reserved"]),
        ("--format = csv,nohead", ["csv,noheader", "csv,noheader,nounits"]),
        ("record --demo = pcie", ["pcie-1080ti"]),
    ],
)
def test_bash_completes_values(words: str, offered: list[str]) -> None:
    """The words are as bash splits them; a sign may end them."""
    text = script("bash") + BASH
    argv = ["bash", "--norc", "-c", text, "bash", "gpudash", *words.split()]
    run = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert (run.stdout.split(), run.stderr) == (offered, "")


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("--theme=l", ["--theme=light"]),
        ("--sort user,gpu_memory_", ["user,gpu_memory_percent\tMEM%"]),
        ("--query-gpu=index,memory.r", ["--query-gpu=index,memory.reserved\tMiB"]),
        ("kill -s KIL", ["KILL\tdestroy"]),
        ("help pic", ["pick\tprint free GPUs: CUDA_VISIBLE_DEVICES=$(gpudash pick)"]),
    ],
)
def test_fish_describes_each_value_by_what_it_is(line: str, offered: list[str]) -> None:
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    text = script("fish") + 'complete -C "gpudash $LINE"'
    argv = ["fish", "--no-config", "-c", text]
    environ = {**os.environ, "LINE": line}
    run = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=60)
    assert (run.stdout.splitlines(), run.stderr) == (offered, "")
