"""Completions, as the shells themselves take them where they are installed."""

import os
import re
import shutil
import subprocess
from functools import lru_cache

import pytest

from tests.e2e.forking import GPUDASH


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
complete=${BASH_REMATCH[1]}
while read -ra words; do
    [[ ${words[-1]} == "''" ]] && words[-1]=""
    COMP_WORDS=(gpudash "${words[@]}") COMP_CWORD=${#words[@]}
    $complete gpudash "${words[-1]}"
    echo "${COMPREPLY[@]}"
done
"""
"""Completes line after line, whose words are as bash splits them."""

COMPLETED = {
    "--query-gp": "--query-gpu",
    "--theme = l": "light",
    "--theme lig": "light",
    "--fail-on =": "info warn critical",
    "--fail-on c": "critical",
    "--sort m": "memory_bandwidth mem memory",
    "--sort user,m": "user,memory_bandwidth user,mem user,memory",
    "--query-compute-apps = pi": "pid",
    "--query-gpu = index,memory.r": "index,memory.reserved",
    "--format = csv,nohead": "csv,noheader csv,noheader,nounits",
    "--format csv": "csv csv,noheader csv,noheader,nounits csv-hosts csv-users",
    "--demo pcie": "pcie-1080ti",
    "record --demo = pcie": "pcie-1080ti",
    "topo --demo mi": "mig",
    "pick --format ''": "uuid index",
    "kill --signal US": "USR1 USR2",
    "record /etc/hostn": "/etc/hostname",
    "--replay /etc/hostn": "/etc/hostname",
}


def test_bash_completes_options_values_and_files() -> None:
    argv = ["bash", "--norc", "-c", script("bash") + BASH]
    lines = "".join(f"{line}\n" for line in COMPLETED)
    run = subprocess.run(argv, input=lines, capture_output=True, text=True, timeout=60)
    assert run.stderr == ""
    found = [set(line.split()) for line in run.stdout.splitlines()]
    expected = {line: set(offered.split()) for line, offered in COMPLETED.items()}
    assert dict(zip(COMPLETED, found, strict=True)) == expected


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
