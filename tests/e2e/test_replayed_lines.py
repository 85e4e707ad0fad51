"""The lines of a recording on a terminal: nothing that its writer put into them reaches it raw."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest

from gpudash.model.wire import encode
from tests.e2e.run import GPUDASH
from tests.factories import make_process, make_snapshot
from tests.waiting import LIMIT_SECONDS

pytestmark = pytest.mark.e2e


def on_a_terminal(*words: str) -> bytes:
    """What a run sends to its terminal."""
    parent, child = pty.openpty()
    run = subprocess.Popen([*GPUDASH, *words], stdin=subprocess.DEVNULL, stdout=child)
    os.close(child)
    sent = b""
    try:
        while chunk := os.read(parent, 65536):
            sent += chunk
    except OSError:  # the terminal's other end is closed
        pass
    run.wait(LIMIT_SECONDS)
    os.close(parent)
    return sent


def test_controls_in_a_recording_stay_off_the_terminal(tmp_path: Path) -> None:
    line = encode(make_snapshot(1, processes=(make_process(name="MARK"),)))
    hostile = line.replace(b"MARK", "a\u009b2Jb\u202ec".encode())
    path = tmp_path / "host.jsonl"
    path.write_bytes(hostile + b"\n")
    sent = on_a_terminal("--json", "--replay", str(path))
    assert b"taken_at" in sent
    assert "\u009b".encode() not in sent
    assert "\u202e".encode() not in sent
