"""What gpudash can do to a host: signal processes, and never another one of the same PID.

A `Target` is pinned by a pidfd before its start time is compared with the one on the screen, so
a PID that is reused, even while a dialog is open, gets nothing. `Tree` adds what it started,
`cautions` says what a person should know first, `strike` sends and waits, `Report` says what came
of it and `audit` keeps a record.
"""

from gpudash.actions.audit import record
from gpudash.actions.cautions import Caution, cautions
from gpudash.actions.outcome import Outcome, outcome
from gpudash.actions.pin import pin
from gpudash.actions.release import Release, release
from gpudash.actions.report import Report
from gpudash.actions.several import Refusal, pin_all, send_all, wait_all
from gpudash.actions.signals import Signal, find_signal, signals
from gpudash.actions.strike import Hit, Sending, strike
from gpudash.actions.target import Standing, Target
from gpudash.actions.tree import Member, Tree, members, tree

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
