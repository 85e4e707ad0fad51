import signal
from pathlib import Path

import psutil

from gpudash.model.snapshot import Snapshot
from tests.e2e.run import each_of, tell
from tests.e2e.stream import drain, streaming

FINE = {"DEVICES": 2, "LOAD": "idle"}


def test_fail_on_gives_one_unless_a_gpu_has_a_status_of_its_own(fakenvml: Path) -> None:
    expected: list[tuple[str, dict[str, object], int]] = [
        ("info", FINE, 0),
        ("warn", {"DEVICES": 8, "LOAD": "busy"}, 1),
        ("info", {"DEVICES": 8, "LOAD": "busy"}, 1),
        ("critical", {"DEVICES": 8, "LOAD": "idle", "LOST": "1"}, 15),
        ("warn", {"DEVICES": 0}, 6),
    ]
    found = each_of([(f"--once --fail-on {level}", told) for level, told, _ in expected], fakenvml)
    assert [status for status, _, _ in found] == [status for _, _, status in expected]


def test_xid_stands_until_the_gpu_came_back(fakenvml: Path, tmp_path: Path) -> None:
    control, device = tmp_path / "control", tmp_path / "nvidia1"
    device.touch()
    tell(control)
    with streaming(fakenvml, DEVICES=2, LOAD="idle", CONTROL=control, HOLD=device) as stream:
        process = psutil.Process(stream.process.pid)

        def let_go_and_take_back() -> Snapshot:
            process.send_signal(signal.SIGUSR1)
            drain(stream, device, process)
            process.send_signal(signal.SIGUSR1)
            return stream.next()

        stream.until(lambda snapshot: snapshot.devices[1].xid_events == ())
        tell(control, XID="1:79")
        stream.until(lambda snapshot: told_of(snapshot) == ["xid"])
        assert told_of(let_go_and_take_back()) == ["xid"]
        tell(control, LOST="1")
        stream.until(lambda snapshot: told_of(snapshot) == ["lost", "xid"])
        tell(control)
        back = let_go_and_take_back()
    assert told_of(back) == []
    assert [(each.code, each.before_reset) for each in back.devices[1].xid_events or ()] == [
        (79, True)
    ]


def told_of(snapshot: Snapshot) -> list[str]:
    return [finding.rule for finding in snapshot.findings or ()]
