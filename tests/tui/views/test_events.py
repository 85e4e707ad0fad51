import os
from datetime import timedelta
from pathlib import Path

from msgspec.structs import replace

from gpudash.model.process import Lease
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import SafeText, clean
from tests.factories import gpu_uuid, make_device, make_snapshot
from tests.tui.stage import OnScreen, on_screen

DEVICES = tuple(make_device(index=index) for index in range(2))
GONE = (DEVICES[0], replace(DEVICES[1], state="lost"))
LEASE = Lease(uuid=gpu_uuid(0), index=0, pid=77, username=SafeText("eve"))
START = make_snapshot(devices=DEVICES, topology=None)


def at(seconds: float, **fields: object) -> Snapshot:
    host = replace(START.host, uptime_seconds=(START.host.uptime_seconds or 0.0) + seconds)
    taken_at = START.taken_at + timedelta(seconds=seconds)
    return replace(START, taken_at=taken_at, host=host, **fields)


def rows(on: OnScreen) -> list[list[str]]:
    """Kind and GPU of each event, the newest first."""
    return [line.split()[2:4] for line in on.lines[3:-1] if line.strip()]


async def test_what_happened_since_the_start_is_listed_also_before_the_view_is_opened() -> None:
    async with on_screen(START, size=(100, 20)) as on:
        await on.give(at(2, leases=(LEASE,)))
        await on.give(at(4, devices=GONE, leases=(LEASE,)))
        await on.give(at(6))
        await on.press("E")
        assert rows(on) == [
            ["lease-ended", "0"],
            ["gpu-returned", "1"],
            ["gpu-lost", "1"],
            ["lease-taken", "0"],
        ]
        await on.press("left_square_bracket", "left_square_bracket")
        assert rows(on) == [["lease-taken", "0"]]


async def test_a_long_list_is_scrolled() -> None:
    async with on_screen(START, "E", size=(100, 20)) as on:
        assert "nothing has happened while it was watched" in on.text
        for number in range(1, 31):
            await on.give(at(2 * number, devices=GONE if number % 2 else DEVICES))
        assert "1-16 of 30" in on.footer
        assert rows(on)[0] == ["gpu-returned", "1"]
        await on.press("end")
        assert "15-30 of 30" in on.footer
        assert rows(on)[-1] == ["gpu-lost", "1"]


def recorded(state: Path, *seconds: float) -> None:
    """Signals that were sent so long after the start."""
    (state / "gpudash").mkdir(parents=True, exist_ok=True)
    with (state / "gpudash" / "audit.jsonl").open("a") as file:
        for each in seconds:
            at = (START.taken_at + timedelta(seconds=each)).isoformat()
            file.write(f'{{"time":"{at}","pid":7,"signal":"TERM","command":"x","result":"sent"}}\n')


async def test_signals_that_were_sent_here_stand_among_what_happened(state: Path) -> None:
    recorded(state, -1, 1)
    host = replace(START.host, hostname=clean(os.uname().nodename))
    here = replace(START, host=host)
    async with on_screen(here, size=(100, 20)) as on:
        await on.give(replace(at(2, devices=GONE), host=host))
        await on.press("E")
        await on.until(lambda: len(rows(on)) > 1)
        assert [kind for kind, *_ in rows(on)] == ["gpu-lost", "signal"]
        assert "TERM to PID 7 (x): sent" in on.text
        recorded(state, 3)
        await on.give(replace(at(4, devices=GONE), host=host))
        await on.until(lambda: len(rows(on)) > 2)
        assert [kind for kind, *_ in rows(on)] == ["signal", "gpu-lost", "signal"]


async def test_a_record_that_does_not_answer_holds_up_no_key(state: Path) -> None:
    (state / "gpudash").mkdir(parents=True)
    record = state / "gpudash" / "audit.jsonl"
    os.mkfifo(record)
    async with on_screen(START, "E", size=(100, 20)) as on:
        await on.give(at(2, devices=GONE))
        assert rows(on) == [["gpu-lost", "1"]]
        await on.press("escape")
        assert "Events" not in on.text
    # The thread goes on with it.
    with record.open("wb", buffering=0):
        pass
