import asyncio
import os
import pty
from collections.abc import Iterator

import pytest

from gpudash.tui.backstage.outlet import Outlet

LONG = "x" * 300_000


def _nothing() -> None: ...


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


async def read(descriptor: int, wanted: int) -> bytes:
    data = b""
    loop = asyncio.get_running_loop()
    end = loop.time() + 10
    while len(data) < wanted and loop.time() < end:
        try:
            data += os.read(descriptor, 65536)
        except BlockingIOError:
            await asyncio.sleep(0)
    return data


async def test_short_text_is_sent_at_once(terminal: tuple[int, int]) -> None:
    ours, theirs = terminal
    outlet = Outlet(theirs, asyncio.get_running_loop(), _nothing)
    outlet.write("hélas")
    assert not outlet.busy
    assert os.read(ours, 100) == "hélas".encode()
    outlet.close()


async def test_what_the_terminal_does_not_take_follows_in_order(
    terminal: tuple[int, int],
) -> None:
    ours, theirs = terminal
    outlet = Outlet(theirs, asyncio.get_running_loop(), _nothing)
    outlet.write(LONG)
    assert outlet.busy
    outlet.write("end")
    assert await read(ours, len(LONG) + 3) == (LONG + "end").encode()
    while outlet.busy:
        await asyncio.sleep(0)
    outlet.close()


async def test_vanished_terminal_is_no_error() -> None:
    ours, theirs = pty.openpty()
    outlet = Outlet(theirs, asyncio.get_running_loop(), _nothing)
    os.close(ours)
    outlet.write("x")
    assert not outlet.busy
    outlet.close()
    os.close(theirs)


async def test_descriptor_of_the_shell_still_waits(terminal: tuple[int, int]) -> None:
    _ours, theirs = terminal
    outlet = Outlet(theirs, asyncio.get_running_loop(), _nothing)
    assert os.get_blocking(theirs)
    outlet.close()


async def test_what_cannot_be_opened_anew_is_told() -> None:
    with pytest.raises(OSError, match="No such file"):
        Outlet(10_000, asyncio.get_running_loop(), _nothing)
