"""What gpudash can do to a host: signal processes, and never another one of the same PID.

A `Target` is pinned by a pidfd before its start time is compared with the one on the screen, so
a PID that is reused, even while a dialog is open, gets nothing. `Tree` adds what it started,
`cautions` says what a person should know first, `strike` sends and waits, `Report` says what came
of it and `audit` keeps a record.
"""

from gpudash.actions.kill.audit import record
from gpudash.actions.kill.outcome import Outcome, outcome
from gpudash.actions.kill.pin import pin
from gpudash.actions.kill.release import Release, release
from gpudash.actions.kill.report import Report
from gpudash.actions.kill.run import Hit, Sending, strike
from gpudash.actions.kill.several import Refusal, pin_all, send_all, wait_all
from gpudash.actions.kill.signals import Signal, find_signal, signals
from gpudash.actions.kill.target import Standing, Target
from gpudash.actions.kill.tree import Member, Tree, members, tree
from gpudash.actions.kill.warnings import Caution, cautions

__all__ = [
    "Caution",
    "Hit",
    "Member",
    "Outcome",
    "Refusal",
    "Release",
    "Report",
    "Sending",
    "Signal",
    "Standing",
    "Target",
    "Tree",
    "cautions",
    "find_signal",
    "members",
    "outcome",
    "pin",
    "pin_all",
    "record",
    "release",
    "send_all",
    "signals",
    "strike",
    "tree",
    "wait_all",
]
