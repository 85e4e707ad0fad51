"""Sending the signal from the shell, and printing what came of it."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import closing, suppress

from gpudash.actions.kill.audit import record
from gpudash.actions.kill.report import Report
from gpudash.actions.kill.run import Hit, Latest, Sending, strike
from gpudash.actions.kill.signals import Signal
from gpudash.cli.verbs.kill.waiting import Waiting
from gpudash.feed.sampler import Survey
from gpudash.model.errors import ActionError, GpudashError
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import clean
from gpudash.output.kill import told
from gpudash.system import terminal as stdout

_LOOK_SECONDS = 0.05


def carry_out(hits: Sequence[Hit], signal: Signal, before: Snapshot, latest: Latest) -> bool:
    """Signal all, wait, and print a line for each; returns whether all went well."""
    with closing(Waiting(signal)) as waiting:
        report = _driven(hits, signal, before, latest, waiting)
        lines = "".join(f"{line}\n" for line in told(report))
        stdout.write(lines.encode(errors="backslashreplace"))
    return report.done


def newest(survey: Survey) -> Snapshot:
    """Return the last sample there is; what became of processes is worth saying without more."""
    with suppress(GpudashError):
        survey.next(0)
    return survey.samples[-1]


def _driven(
    hits: Sequence[Hit], signal: Signal, before: Snapshot, latest: Latest, waiting: Waiting
) -> Report:
    def note(sendings: Sequence[Sending]) -> None:
        waiting.sent(sendings)
        _record(sendings)

    waiting.obey_ctrl_c()
    steps = strike(hits, signal, before, latest=latest, say=waiting.say, record=note)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            waiting.end()
            report: Report = end.value
            return report
        waiting.pass_on()
        # Whoever reads the output may leave: what was begun is done for all the same.
        time.sleep(_LOOK_SECONDS)


def _record(sendings: Sequence[Sending]) -> None:
    """Keep a record; a signal that was sent cannot be taken back where that fails."""
    try:
        record(sendings)
    except ActionError as error:
        with suppress(OSError):
            os.write(2, f"gpudash: {clean(str(error))}\n".encode())
