"""What `gpudash serve` keeps on disk, and who reads it."""

import signal
from pathlib import Path

import pytest

from tests.e2e.run import gpudash
from tests.e2e.serving import serving
from tests.waiting import LIMIT_SECONDS, until


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
            assert "another gpudash writes there" in server.stderr.read()
    words = ("serve", "--listen", "127.0.0.1:0", "--history", "/proc/history")
    assert gpudash(*words, library=fakenvml).status == 2
