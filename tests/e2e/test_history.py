"""What `gpudash serve` keeps on disk, and who reads it."""

from __future__ import annotations

import resource
import signal
from pathlib import Path

import pytest

from tests.e2e.run import gpudash
from tests.e2e.serving import Viewer, serving
from tests.waiting import LIMIT_SECONDS, until


def test_it_is_read_as_a_recording(fakenvml: Path, tmp_path: Path) -> None:
    folder, socket = tmp_path / "history", tmp_path / "socket"
    for _ in range(2):
        with serving(fakenvml, socket, "--history", str(folder), DEVICES=2) as server:
            server.send_signal(signal.SIGTERM)
            assert server.wait(LIMIT_SECONDS) == 143
    run = gpudash("--json", "--replay", str(folder), library=fakenvml)
    assert len(run.stdout.splitlines()) == 2
    for words in (("--once", "--json"), ("--once", "--json", "--at", "-0s")):
        last = gpudash(*words, "--replay", str(folder), library=fakenvml)
        assert last.stdout == run.stdout.splitlines(keepends=True)[1]
    assert gpudash("events", "--replay", str(folder), library=fakenvml).status == 0
    nothing = gpudash("--once", "--replay", str(tmp_path), library=fakenvml)
    assert (nothing.status, nothing.stdout) == (2, b"")
    assert "a folder without a recording" in nothing.stderr


def test_a_unit_keeps_it_in_its_state(
    fakenvml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    with serving(fakenvml, tmp_path / "socket"):
        until(lambda: list(tmp_path.glob("history/*.10s.jsonl.zst")))
        other = tmp_path / "other"
        with serving(fakenvml, other) as server:
            server.send_signal(signal.SIGTERM)
            assert server.wait(LIMIT_SECONDS) == 143
            assert server.stderr is not None
            assert "another gpudash writes there" in server.stderr.read()
    words = ("serve", "--listen", "127.0.0.1:0", "--history", "/proc/history")
    assert gpudash(*words, library=fakenvml).status == 2


def test_a_full_disk_ends_nothing(fakenvml: Path, tmp_path: Path) -> None:
    socket, folder = tmp_path / "socket", tmp_path / "history"
    with serving(fakenvml, socket, "--history", str(folder)) as server, Viewer(socket) as each:
        until(lambda: any(each.stat().st_size for each in folder.iterdir()))
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (100, 100))
        each.line()
        each.ask(b'{"interval": 1}\n')
        assert each.line()["taken_at"] < each.line()["taken_at"]
        server.send_signal(signal.SIGTERM)
        assert server.wait(LIMIT_SECONDS) == 143
        assert server.stderr is not None
        assert server.stderr.read().count("File too large") == 1
    run = gpudash("--once", "--json", "--replay", str(folder), library=fakenvml)
    assert run.status == 0
