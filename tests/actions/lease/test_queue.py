import os
import pty
import time
from collections.abc import Callable

import pytest

from gpudash.actions.lease.choose import require_possible
from gpudash.actions.lease.queue import Waiting
from gpudash.actions.lease.request import GpuRequest
from gpudash.model.errors import GpudashError
from tests.factories import GIB, make_device, make_snapshot


@pytest.fixture
def told(capfd: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """What went to stderr since it was asked for last."""
    return lambda: capfd.readouterr().err


def test_no_time_at_all(told: Callable[[], str]) -> None:
    assert not Waiting(0, since=time.monotonic()).within_deadline("1 GPU wanted, 0 free")
    assert told() == "gpudash: 1 GPU wanted, 0 free\n"


def test_a_line_a_minute_without_a_terminal(told: Callable[[], str]) -> None:
    waiting = Waiting(None, since=time.monotonic() - 192)
    for _ in range(3):
        assert waiting.within_deadline("1 GPU wanted, 0 free")
    assert told() == "gpudash: waiting 3m12s: 1 GPU wanted, 0 free\n"
    assert waiting.seconds_left is None


def test_a_line_that_is_replaced_on_a_terminal() -> None:
    parent, child = pty.openpty()
    saved = os.dup(2)
    os.dup2(child, 2)
    try:
        waiting = Waiting(None, since=time.monotonic())
        waiting.report("who has them " * 40)
        waiting.end()
    finally:
        os.dup2(saved, 2)
        os.close(saved)
    text = ""
    while text.count("\r\x1b[K") < 2:
        text += os.read(parent, 65536).decode()
    os.close(parent)
    os.close(child)
    assert "\n" not in text


def test_time_that_is_over(told: Callable[[], str]) -> None:
    waiting = Waiting(5, since=time.monotonic() - 6)
    assert waiting.seconds_left == 0
    assert not waiting.within_deadline("none")
    assert told() == "gpudash: none\n"


def test_what_can_never_be() -> None:
    host = make_snapshot(devices=(make_device(), make_device(index=1, name="L4")))
    require_possible(host, GpuRequest(count=2), {})
    require_possible(host, GpuRequest(model="l4"), {})
    for request in (
        GpuRequest(count=3),
        GpuRequest(count=2, model="L4"),
        GpuRequest(min_free_bytes=500 * GIB),
    ):
        with pytest.raises(GpudashError, match="can never be free"):
            require_possible(host, request, {})


def test_what_is_linked_nowhere_is_not_waited_for() -> None:
    host = make_snapshot(4)
    with pytest.raises(GpudashError, match="can never be free"):
        require_possible(host, GpuRequest(count=2, linked=True), {})
