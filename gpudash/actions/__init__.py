"""What gpudash can do to a host: signal processes, and never another one of the same PID.

A `Target` is pinned by a pidfd before its start time is compared with the one on the screen, so
a PID that is reused, even while a dialog is open, gets nothing. `Tree` adds what it started,
`cautions` says what a person should know first, `outcome` what came of it.
"""

from gpudash.actions.cautions import cautions
from gpudash.actions.outcome import Outcome, freed, outcome, still_held
from gpudash.actions.pin import pin
from gpudash.actions.several import Refusal, pin_all, send_all, wait_all
from gpudash.actions.signals import Signal, find_signal, signals
from gpudash.actions.target import Standing, Target
from gpudash.actions.tree import Member, Tree, tree

__all__ = [
    "Member",
    "Outcome",
    "Refusal",
    "Signal",
    "Standing",
    "Target",
    "Tree",
    "cautions",
    "find_signal",
    "freed",
    "outcome",
    "pin",
    "pin_all",
    "send_all",
    "signals",
    "still_held",
    "tree",
    "wait_all",
]
