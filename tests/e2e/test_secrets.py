"""Secrets on the command line of a real process: masked in every output, shown when asked for."""

import sys
from pathlib import Path

import pytest

from tests.e2e.forking import GPUDASH
from tests.e2e.run import each_of
from tests.e2e.screen import press_until
from tests.e2e.terminal import Terminal
from tests.fakenvml.build import environment
from tests.holders import Holders

SECRET = "hunter2-hunter2"
SHOW = "--show-secrets"
NAP = "import time; time.sleep(600)"
JOB = (sys.executable, "-c", NAP, f"--api-key={SECRET}", "--password", SECRET, "--max-tokens", "5")


@pytest.fixture
def told(holders: Holders) -> dict[str, object]:
    """Settings of the stand-in by which the job with the secrets uses its only GPU."""
    (job,) = holders(1, JOB)
    return {"DEVICES": 1, "PROCS_PER_DEVICE": 1, "PIDS": job.pid}


def test_outputs_mask_secrets_unless_they_are_asked_for(
    fakenvml: Path, told: dict[str, object]
) -> None:
    outputs = "--once --json", "--once", f"kill {told['PIDS']} --yes --signal=CONT"
    lines = [(f"{words} {more}", told) for words in outputs for more in ("", SHOW)]
    found = each_of(lines, fakenvml, variables={"COLUMNS": "300"})
    assert {status for status, _, _ in found} == {0}
    texts = [text for _, text, _ in found]
    for masked, shown in zip(texts[::2], texts[1::2], strict=True):
        assert SECRET not in masked
        assert "--api-key=***" in masked
        assert "--max-tokens" in masked
        assert f"--api-key={SECRET}" in shown


def test_the_screen_shows_them_for_a_key_or_an_option_alone(
    fakenvml: Path, told: dict[str, object]
) -> None:
    env = environment(fakenvml, **told)
    with Terminal([*GPUDASH, "--no-config"], env=env, columns=200, rows=50) as terminal:
        terminal.wait_for("--api-key=***")
        terminal.settle(0.05)
        terminal.send("Y", then="command line sent to the clipboard")
        terminal.send("/", SECRET[:5], "enter", then="No process matches the filter")
        terminal.send("escape", then="--api-key=***")
        terminal.send("K", then="Kill PID ")
        press_until(terminal, "escape", lambda: "Kill PID " not in terminal.text)
        terminal.send("enter", then="ENVIRONMENT")
        assert SECRET.encode() not in terminal.raw
        terminal.send("x", then=f"--api-key={SECRET}")
    with Terminal([*GPUDASH, SHOW], env=env, columns=200, rows=50) as terminal:
        terminal.wait_for(f"--api-key={SECRET}")
