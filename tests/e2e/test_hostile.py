"""No byte of a hostile process, driver or file reaches the terminal as more than text."""

import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.e2e.forking import GPUDASH
from tests.e2e.hostile import ATTACK, SHOWN, attacker, forbidden, recording
from tests.e2e.leasing import places, start
from tests.e2e.terminal import Terminal
from tests.fakenvml.build import environment

DRIVER = "5\x1b]0;owned\x07\x1b[97;5;3m\u202e[/x]"

GPU = "G\x9b31m\x1b]0;owned\x07\u202eP[/x]U"
GPU_NAME = r"G\x9b31m"
WRONG = "gpu:\x1b[200~\x9b31m\u202e\x1b]0;owned\x07\x1b[201~"
PASTE = f"\x1b[200~cmd:\x1b]{40 * 'x'}\x1bq{ATTACK.decode('utf-8', 'ignore')}\x1b[201~"
"""With what would be the key that quits, behind a sequence that nobody knows."""


@pytest.fixture(scope="module")
def hostile(fakenvml: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """An environment in which a hostile process uses both GPUs of a hostile driver."""
    with attacker(tmp_path_factory.mktemp("hostile")) as pid:
        yield environment(
            fakenvml, DEVICES=2, PROCS_PER_DEVICE=1, PIDS=pid, DRIVER=DRIVER, NAME=GPU
        )


def screen(env: dict[str, str], *options: str) -> Terminal:
    argv = [*GPUDASH, "--interval", "5", *options]
    return Terminal(argv, env=env, columns=200, rows=50)


JOURNEY = [
    ("d", GPU_NAME),
    ("l", "Power usage"),
    ("escape", GPU_NAME),
    ("x", "Share of the"),
    ("escape", "COMMAND"),
    ("m", "P2P read"),
    ("escape", "COMMAND"),
    ("u", "IDLE-MEM"),
    ("escape", "COMMAND"),
    ("enter", r"\nforged\r"),
    ("t", SHOWN),
    ("e", f"B{SHOWN}"),
    ("x", f"B{SHOWN}"),
    ("escape", "COMMAND"),
    ("s", "GPU-MEM"),
    ("escape", SHOWN),
    ("g", "GPU 1"),
    ("escape", SHOWN),
    ("/", "/"),
    (PASTE, "0;owned"),
    ("escape", SHOWN),
    ("/", "/"),
    (WRONG, "gpu:"),
    ("escape", SHOWN),
    ("$", "xxxxxxxx"),
    ("^", SHOWN),
    ("Y", "command line sent to the clipboard"),
    ("y", "PID sent to the clipboard"),
    (" ", SHOWN),
    ("K", "Kill PID "),
    ("t", "[x] with the children"),
    *[("pagedown", "more")] * 2,
    ("pagedown", "▲"),
    ("s", "USR1"),
    ("escape", SHOWN),
    ("[", SHOWN),
    ("p", SHOWN),
]
"""Where the screen is led: each key, and what is to be seen after it."""


PATIENCE = {"K": 0.8, "escape": 0.3}
"""Seconds: a question takes no keys that were typed before it was seen, Escape none behind it."""


def test_screens_show_attacks_as_text(hostile: dict[str, str]) -> None:
    with screen(hostile, "--no-config") as terminal:
        terminal.wait_for(SHOWN)
        terminal.wait_until(lambda: 1000 in terminal.modes)
        for key, awaited in JOURNEY:
            terminal.send(key, then=awaited)
            terminal.settle(PATIENCE.get(key, 0.05))
        os.kill(terminal.pid, signal.SIGTERM)
        assert terminal.wait_exit() == 128 + signal.SIGTERM
        assert forbidden(terminal.raw) == []


def test_a_hostile_file_of_settings_and_its_folder_are_reported_as_text(
    hostile: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "\x1b]0;owned\x07\x9b31m"
    folder.mkdir()
    path = folder / "config.toml"
    path.write_text('"\\u001b]0;owned\\u0007[/x]" = 1\ntheme = "\\u009b31m\\u202e[/x]"\n')
    with screen({**hostile, "GPUDASH_CONFIG": str(path)}) as terminal:
        terminal.wait_for(SHOWN)
        terminal.settle(0.05)
        assert terminal.quit() == 0
        assert SHOWN in terminal.text
        assert forbidden(terminal.raw) == []


OUTPUTS = [
    ["--once"],
    ["--once", "--json"],
    ["--json=gpustat"],
    ["--format", "csv"],
    ["--format", "prometheus"],
    ["--query-compute-apps=name,gpu_name,gpu_uuid", "--format=csv"],
    ["-q"],
    ["-L"],
    ["topo", "--p2p"],
]
LIVE = [
    ["--once", "--ascii"],
    ["--once", "--show-secrets"],
    ["--query-gpu=name,driver_version,uuid", "--format=csv"],
    ["--query-gpu=\x1b]0;owned\x07", "--format=csv"],
    ["pmon", "-c", "1"],
    ["topo", "--p2p", "--json"],
    ["leases"],
    ["doctor"],
    ["kill", "PID", "--yes", "--tree", "--signal=CONT"],
    ["kill", "1", "\x1b]0;owned\x07"],
    ["--gpu", "\x1b]0;owned\x07\x9b31m\u202e\n", "--once"],
    ["--theme", "\x1b]0;owned\x07\x9b31m\u202e\n"],
    ["--demo=\x1b]0;owned\x07\x9b31m\u202e\n", "--once"],
    ["--\x1b]0;owned\x07\x9b31m\u202e\n"],
    ["\x1b]0;owned\x07\x9b31m\u202e\n"],
]


def printed(commands: Sequence[Sequence[str]], env: Mapping[str, str]) -> list[bytes]:
    found = []
    for words in commands:
        with Terminal([*GPUDASH, *words], env=env, columns=400, rows=100) as terminal:
            terminal.wait_exit()
            found.append(bytes(terminal.raw))
    return found


def test_outputs_and_errors_are_text(hostile: dict[str, str]) -> None:
    pid = hostile["FAKENVML_PIDS"]
    commands = [[word.replace("PID", pid) for word in words] for words in OUTPUTS + LIVE]
    for words, raw in zip(commands, printed(commands, hostile), strict=True):
        assert raw.strip(), words
        assert forbidden(raw) == [], words


HOLDER = """
import time
open("/proc/self/comm", "wb").write(b"\\x1b]0;owned\\x07")
print(flush=True)
time.sleep(600)
"""


def test_a_hostile_holder_of_a_lease_is_text(fakenvml: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make the places for leases that nobody else could replace")
    with places(fakenvml, 1) as environ:
        Path(environ["GPUDASH_LOCK_DIR"], "\x1b]0;owned\x07").touch()
        argv = ("--for", "0", "--", sys.executable, "-c", HOLDER)
        holder = start(environ, "run", *argv)
        holder.stdout.readline()
        try:
            for raw in printed([["leases"], ["leases", "--json"], ["--once"]], environ):
                assert b"0;owned" in raw
                assert forbidden(raw) == []
        finally:
            holder.kill()
            holder.communicate()


def test_a_hostile_recording_is_printed_as_text(tmp_path: Path) -> None:
    path = str(recording(tmp_path / "host.jsonl", 2))
    commands = [["--replay", path, *words] for words in [*OUTPUTS, ["--json"]]]
    for words, raw in zip(commands, printed(commands, os.environ), strict=True):
        assert b"0;owned" in raw, words
        assert b"Traceback" not in raw
        assert forbidden(raw) == [], words


def test_a_hostile_recording_is_shown_as_text(tmp_path: Path) -> None:
    argv = [*GPUDASH, "replay", str(recording(tmp_path / "host.jsonl", 60)), "--no-config"]
    with Terminal(argv, env=dict(os.environ), columns=200, rows=50) as terminal:
        terminal.wait_for(SHOWN)
        terminal.wait_until(lambda: 1000 in terminal.modes)
        for key in ("p", "j", "enter", "t", "escape", "d", "escape", "w", "escape", "m", "escape"):
            terminal.send(key)
            terminal.settle(PATIENCE.get(key, 0.1))
            assert terminal.exit_status is None, terminal.text
        os.kill(terminal.pid, signal.SIGTERM)
        assert terminal.wait_exit() == 128 + signal.SIGTERM
        assert forbidden(terminal.raw) == []
