from __future__ import annotations

import signal
from collections.abc import Callable

from gpudash.actions.kill.tree import pin_all, send_all, wait_all
from tests.actions.kill.shown import HERE, WAIT_SECONDS, shown
from tests.holders import Holder

Holders = Callable[..., list[Holder]]


def test_one_that_is_refused_does_not_spare_the_others(holders: Holders) -> None:
    first, second, gone = holders(3)
    tagged = [shown(first.pid), shown(1), shown(second.pid), shown(gone.pid)]
    gone.end()
    targets, refusals = pin_all(tagged, HERE)
    assert [target.process.pid for target in targets] == [first.pid, second.pid]
    assert {refusal.process.pid for refusal in refusals} == {1, gone.pid}
    assert send_all(targets, signal.SIGKILL) == ()
    assert wait_all(targets, WAIT_SECONDS) == ()
    again = send_all(targets, signal.SIGKILL)
    assert [refusal.process.pid for refusal in again] == [first.pid, second.pid]
    assert all("already exited" in refusal.reason for refusal in again)
    for target in targets:
        target.close()


def test_those_that_live_on_are_returned(holders: Holders) -> None:
    stays, goes = holders(2)
    targets, _ = pin_all([shown(stays.pid), shown(goes.pid)], HERE)
    targets[1].send(signal.SIGTERM)
    assert wait_all(targets, 0.2) == targets[:1]
    for target in targets:
        target.close()
