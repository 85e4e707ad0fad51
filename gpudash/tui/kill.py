"""A kill on the screen: the question, the signal, and another question if it was ignored.

Only the action that asks imports this: a read-only screen does not load code that signals.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from gpudash.actions.kill.audit import AuditTrail
from gpudash.actions.kill.report import KillReport, describe, offer
from gpudash.actions.kill.run import TIMEOUTS, Kill, Timeouts
from gpudash.actions.kill.selection import KillSelection
from gpudash.actions.kill.signals import find_signal
from gpudash.analysis.table import ProcessRow
from gpudash.model.snapshot import Snapshot
from gpudash.tui.app import GpudashApp, in_loop
from gpudash.tui.dashboard import DashboardModel
from gpudash.tui.dialogs.dialog import put_above
from gpudash.tui.dialogs.kill import Answer, KillScreen

_POLL_SECONDS = 0.1
_AUDIT_SECONDS = 1.0
"""Time to write the record before the result is shown without it."""

_FOLLOW_SECONDS = 30.0
"""How long a result is updated: memory is released, and parents reap, later."""

_Result = TypeVar("_Result")


def ask(
    app: GpudashApp,
    dashboard: DashboardModel,
    rows: Sequence[ProcessRow],
    signal_name: str,
    timeouts: Timeouts = TIMEOUTS,
) -> None:
    """Ask whether to signal processes that are shown."""
    selection = KillSelection((row.process for row in rows), dashboard.snapshot)
    selection.find_trees_in_thread()
    _Flow(app, dashboard, selection, timeouts).ask(
        Answer(find_signal(signal_name), with_tree=False)
    )


class _Flow:
    """One selection, from the question to the result."""

    def __init__(
        self,
        app: GpudashApp,
        dashboard: DashboardModel,
        selection: KillSelection,
        timeouts: Timeouts,
    ) -> None:
        # The page that asked may be closed before there is a result.
        self._app, self._dashboard = app, dashboard
        self._selection, self._timeouts = selection, timeouts

    def _show(self, message: str, *, stays: bool = False) -> None:
        self._dashboard.status_message.show(message, stays=stays)
        self._app.outdated = True

    def ask(self, answer: Answer, *, result: str = "", offer: str = "") -> None:
        """Ask; `result`, of an earlier signal, stays in view if nothing is sent."""
        asked, unasked = self._app.guard_seconds
        dialog = KillScreen(
            self._selection,
            answer,
            self._dashboard.theme,
            latest=self._latest,
            guard_seconds=unasked if offer else asked,
            offer=offer,
        )
        if not put_above(self._app, dialog, partial(self._answered, result)):
            self._selection.close()

    def _latest(self) -> Snapshot:
        """Return the live snapshot, even while one of the past is shown."""
        dashboard = self._dashboard
        known = dashboard.snapshot, dashboard.history.latest
        return max(known, key=lambda each: each.taken_at)

    def _answered(self, result: str, answer: Answer | None) -> None:
        if answer is not None:
            self._show("")
            self._app.run_worker(self._carry_out(answer))
            return
        ended = bool(self._selection.targets) and not self._selection.living
        self._selection.close()
        self._show("ended by itself; nothing was sent" if ended else result)

    async def _carry_out(self, answer: Answer) -> None:
        """Signal, wait, and offer SIGKILL to those that ignored it or keep memory in use."""
        app, selection, trail = self._app, self._selection, AuditTrail()
        history = self._dashboard.history
        kill = Kill(
            selection.requests(with_tree=answer.with_tree),
            answer.signal,
            record=trail.record,
            timeouts=self._timeouts,
        )
        before = history.latest
        # Here, where quitting cannot come between stopping a tree and killing it.
        kill.send()

        progress = partial(in_loop(self._show), stays=True)

        def wait() -> tuple[KillReport, Sequence[str]]:
            report = kill.wait(before, latest=lambda: history.latest, progress=progress)
            if report.heads:
                selection.keep(report.heads)
            return report, trail.errors(_AUDIT_SECONDS)

        # If the user quits meanwhile, the program ends before the thread: the selection stays open.
        report, errors = await _in_thread(wait)
        result = _text(report, errors)
        self._show(result)
        if not report.heads:
            await self._follow(report, errors, result)
            selection.close()
            return
        while app.screen.is_modal or app.focused is not None:
            # Another question is open, or text is being typed.
            await asyncio.sleep(_POLL_SECONDS)
        again = answer._replace(signal=find_signal("KILL"))
        self.ask(again, result=result, offer=offer(report))

    async def _follow(self, report: KillReport, errors: Sequence[str], result: str) -> None:
        """Update the result for a while, as long as it is shown."""
        dashboard = self._dashboard
        deadline, seen = time.monotonic() + _FOLLOW_SECONDS, dashboard.history.latest
        while dashboard.message == result and time.monotonic() < deadline:
            await asyncio.sleep(_POLL_SECONDS)
            latest = dashboard.history.latest
            is_new = latest is not seen and not report.is_memory_freed
            report, seen = report.refreshed(latest if is_new else None), latest
            text = _text(report, errors)
            if text != result and dashboard.message == result:
                result = text
                self._show(result)


def _text(report: KillReport, errors: Sequence[str]) -> str:
    return "; ".join((*describe(report), *errors))


async def _in_thread(call: Callable[[], _Result]) -> _Result:
    """Make a call in a thread that does not delay the program's exit, and return its result.

    The threads of an executor would be waited for.
    """
    future: Future[_Result] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(future)
