import json
import os
import resource
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from gpudash.actions import sent
from gpudash.actions.kill.audit import AuditTrail, Sending, record
from gpudash.actions.kill.signals import find_signal
from gpudash.model.errors import ActionError
from tests.actions.kill.shown import pinned
from tests.holders import Holder

TERM = find_signal("TERM")


def lines(state: Path) -> list[dict[str, Any]]:
    text = (state / "gpudash" / "audit.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_a_signal_is_a_line_for_its_owner_alone(job: Holder, state: Path) -> None:
    with pinned(job.pid, command_line=("python", "x.py", "--token", "hunter2")) as target:
        record([Sending(target, TERM, None)])
        record([Sending(target, TERM, "not permitted")])
    first, second = lines(state)
    assert first["pid"] == job.pid
    assert first["start_ticks"] == target.process.start_ticks
    assert (first["signal"], first["result"], first["uid"]) == ("TERM", "sent", os.geteuid())
    assert first["command"] == "python x.py --token '***'"
    assert second["result"] == "not permitted"
    file = state / "gpudash" / "audit.jsonl"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_nothing_sent_is_no_line(state: Path) -> None:
    record([])
    assert not state.exists()


def test_a_link_is_not_followed(job: Holder, state: Path, tmp_path: Path) -> None:
    (state / "gpudash").mkdir(parents=True)
    (state / "gpudash" / "audit.jsonl").symlink_to(tmp_path / "elsewhere")
    with pinned(job.pid) as target, pytest.raises(ActionError, match=r"not recorded in audit"):
        record([Sending(target, TERM, None)])
    assert not (tmp_path / "elsewhere").exists()


def test_a_pipe_that_nobody_reads_does_not_hold_it(job: Holder, state: Path) -> None:
    (state / "gpudash").mkdir(parents=True)
    os.mkfifo(state / "gpudash" / "audit.jsonl")
    with pinned(job.pid) as target, pytest.raises(ActionError, match=r"not recorded"):
        record([Sending(target, TERM, None)])


def test_a_line_that_does_not_fit_is_given_and_taken_back(job: Holder, state: Path) -> None:
    with pinned(job.pid) as target:
        record([Sending(target, TERM, None)])
        size = (state / "gpudash" / "audit.jsonl").stat().st_size
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, limits[1]))
        try:
            with pytest.raises(ActionError, match=r"not recorded in .*: File too large"):
                record([Sending(target, TERM, None)])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        record([Sending(target, TERM, "not permitted")])
    assert [entry["result"] for entry in lines(state)] == ["sent", "not permitted"]


def test_a_home_of_another_user_is_not_written_to(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can be in the home of another user")
    import pwd

    os.chown(tmp_path, 65534, 65534)
    before = os.environ["HOME"]
    os.environ["HOME"] = str(tmp_path)
    try:
        home = pwd.getpwuid(0).pw_dir
        assert sent.path({}) == f"{home}/.local/state/gpudash/audit.jsonl"
    finally:
        os.environ["HOME"] = before


def test_a_home_that_hangs_holds_up_nothing(job: Holder) -> None:
    is_back = threading.Event()

    def write(_: object) -> None:
        is_back.wait(60)

    trail = AuditTrail(write)
    with pinned(job.pid) as target:
        trail.record([Sending(target, TERM, None)])
    assert trail.errors(0.01) == ("audit.jsonl is still being written",)
    is_back.set()
    assert trail.errors() == ()


def test_one_reason_for_several_lines_is_one_error(job: Holder, state: Path) -> None:
    state.write_text("no folder")
    trail = AuditTrail()
    with pinned(job.pid) as target:
        for _ in range(2):
            trail.record([Sending(target, TERM, None)])
    assert trail.errors() == ("not recorded in audit.jsonl: Not a directory",)
