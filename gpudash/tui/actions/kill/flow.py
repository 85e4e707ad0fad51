"""The way of a kill through the screen: the question, the signal, and once more if ignored."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from gpudash.actions.kill.report import Report
from gpudash.actions.kill.run import Steps, strike
from gpudash.actions.kill.signals import Signal, find_signal
from gpudash.tui.actions.kill.aim import Aim
from gpudash.tui.actions.kill.recorder import Recorder
from gpudash.tui.dialogs.kill import Answer, KillScreen
from gpudash.tui.views.view import View, put_above

if TYPE_CHECKING:
    from gpudash.tui.screen import LiveApp

_LOOK_SECONDS = 0.1
_STEP_SECONDS = 0.05
_FOLLOW_SECONDS = 30.0


def ask(app: LiveApp, signal_name: str) -> None:
    """Ask whether to signal the tagged processes, or the selected one where none is tagged.

    Over another view, which shows no tags, it is the selected one.
    """
    listing = app.dashboard.listing
    rows = [] if isinstance(app.screen, View) else listing.tagged_rows
    if not rows and listing.selected is not None:
        listing.hold()
        rows = [listing.selected]
    if not rows:
        app.show_message("no process is selected")
        return
    aim = Aim(rows, app.dashboard.snapshot)
    aim.look_below()
    _put(app, aim, find_signal(signal_name))


def _put(app: LiveApp, aim: Aim, signal: Signal, told: str = "", offer: str = "") -> None:
    """Put the question; `told` is what it leaves behind if nothing is sent."""

    def answered(answer: Answer | None) -> None:
        if answer is not None:
            app.show_message("")
            app.run_worker(_carry_out(app, aim, answer))
            return
        ended = bool(aim.targets) and not aim.living
        aim.close()
        app.show_message("ended by itself; nothing was sent" if ended else told)

    question = KillScreen(aim, signal, app.dashboard.theme, offer=offer)
    if not put_above(app, question, answered):
        aim.close()


async def _carry_out(app: LiveApp, aim: Aim, answer: Answer) -> None:
    """Do it, and offer SIGKILL to those that ignore a weaker signal or keep memory in use."""
    handed_on, recorder = False, Recorder()
    try:
        history = app.dashboard.history
        report = await driven(
            strike(
                aim.hits(whole=answer.whole),
                answer.signal,
                history.latest,
                latest=lambda: history.latest,
                say=partial(app.show_message, stays=True),
                record=recorder,
            )
        )
        stubborn, offer = report.stubborn, report.offer
        troubles = await recorder.troubles()
        told = "; ".join([report.summary, *troubles])
        app.show_message(told)
        if stubborn:
            aim.keep(stubborn)
            await _free(app)
            handed_on = True
            _put(app, aim, find_signal("KILL"), told, f"{told}: {offer}")
        else:
            await _follow(app, report, told, troubles)
    finally:
        if not handed_on:
            aim.close()


async def _follow(app: LiveApp, report: Report, told: str, troubles: Sequence[str]) -> None:
    """Correct what is told, as long as it is: memory comes free, and parents reap, later."""
    deadline, seen = time.monotonic() + _FOLLOW_SECONDS, app.dashboard.history.latest
    while app.dashboard.message == told and time.monotonic() < deadline:
        await asyncio.sleep(_LOOK_SECONDS)
        latest = app.dashboard.history.latest
        if latest is not seen and not (report.release and report.release.settled):
            report, seen = report.at(latest), latest
        fresh = "; ".join([report.summary, *troubles])
        if fresh != told and app.dashboard.message == told:
            told = fresh
            app.show_message(told)


async def driven(steps: Steps) -> Report:
    """Let a strike take its steps, and the screen live between them."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            report: Report = end.value
            return report
        await asyncio.sleep(_STEP_SECONDS)


async def _free(app: LiveApp) -> None:
    """Wait until no other question is open and nothing is being typed."""
    while app.screen.is_modal or app.focused is not None:
        await asyncio.sleep(_LOOK_SECONDS)
