"""The states of a device: one table, from which header, columns, findings and messages take words.

Those that `Device.state` can have are reasons why a device is not read; the others are what a
readable device does, found by `analysis.activity`. `Device.status` has the id of any of them. A new
state is one row here and its detection there.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Literal

from msgspec import Struct

from gpudash.model.device import AnyDevice
from gpudash.model.units import inflected

Level = Literal["unknown", "ok", "warn", "critical"]
"""How bad a value or a state is."""


class State(Struct, frozen=True, eq=False):
    """One state of a device."""

    id: str
    """Its name in documents: `Device.status`, and `Device.state` if it is unreadable."""
    word: str
    """In the column STATUS and, behind a number of devices, in the header; loud if unreadable."""
    fact: str
    """Behind the name of a device, or of several, as `inflected` takes it."""
    level: Level
    is_problem: bool = False
    """Whether something is wrong with the device itself, not with its use."""
    is_free: bool = False
    """Whether the next person may have it."""
    is_unreadable: bool = False
    """Whether it is the reason why a device is not read: a `Device.state` other than ok."""
    reason: str = ""
    """Why a device without a fault is not read."""
    letter: str = ""
    """On the map of many hosts, unlike any other; empty for what is drawn by its value."""

    @property
    def sentence(self) -> str:
        """Behind the name of one device: `needs a reset`."""
        return inflected(1, self.fact)

    @property
    def is_broken(self) -> bool:
        """Whether no job can use it: its problem is more than heat."""
        return self.is_problem and self is not HOT


# In the order of the header: what needs a person comes first.
# fmt: off
STATES: tuple[State, ...] = (
    LOST := State("lost", "LOST", "fell off the bus", "critical",
                  is_problem=True, is_unreadable=True, letter="X"),
    NOT_ANSWERING := State("not-answering", "NO ANSWER", "[does|do] not answer", "critical",
                           is_problem=True, is_unreadable=True, letter="N"),
    RESET_REQUIRED := State("reset-required", "RESET", "[needs|need] a reset", "critical",
                            is_problem=True, is_unreadable=True, letter="R"),
    FAILED := State("failed", "FAILED", "cannot be read", "critical",
                    is_problem=True, is_unreadable=True, letter="F"),
    UNUSABLE := State("unusable", "unusable", "[is|are] unfit for jobs", "warn",
                      is_problem=True, letter="U"),
    HOT := State("hot", "hot", "[is|are] thermally throttled", "warn",
                 is_problem=True, letter="T"),
    SLOW := State("slow", "slow", "[is|are] slower than the other GPUs of [its|their] job", "warn",
                  letter="s"),
    BUSY := State("busy", "busy", "[is|are] computing", "ok"),
    HELD := State("held-idle", "held idle", "[is|are] held and not used", "warn", letter="h"),
    IN_USE := State("in-use", "in use", "[is|are] allocated, not computing now", "ok"),
    LEASED := State("leased", "leased", "[is|are] leased and not used yet", "ok", letter="l"),
    DIVIDED := State("divided", "divided", "[is|are] divided into MIG instances", "ok"),
    NO_INSTANCES := State("mig-empty", "MIG empty",
                          "[is|are] in MIG mode without instances, where nothing can run", "ok",
                          letter="i"),
    FREE := State("free", "free", "[is|are] not used by anyone", "ok", is_free=True),
    DRAINED := State("drained", "drained", "[is free on a drained host|are free on drained hosts]",
                     "unknown", letter="d"),
    UNKNOWN := State("unknown", "unknown", "[does|do] not report whether [it is|they are] used",
                     "unknown", letter="?"),
    RESTING := State("resting", "resting", "[is|are] left alone to fall asleep", "unknown",
                     is_unreadable=True, reason="left alone so that it can fall asleep",
                     letter="z"),
    ASLEEP := State("asleep", "asleep", "[is|are] asleep", "unknown", is_unreadable=True,
                    reason="powered down, not woken to be read", letter="z"),
)
# fmt: on
"""Every state, in the order in which the header counts them."""

ACKNOWLEDGED = State("acknowledged", "acknowledged", "[is|are] acknowledged", "unknown")
"""What a device counts as in the header with which something is wrong that is no news."""
_FINE = STATES.index(BUSY)
COUNTED = (*STATES[:_FINE], ACKNOWLEDGED, *STATES[_FINE:])
"""All that the header counts, in its order: a problem that is known before all that is fine."""

RANKS = {state.id: rank for rank, state in enumerate(STATES)}
"""That order by the id of a state."""
_BY_ID: dict[str, State] = {state.id: state for state in COUNTED}


def state_of(status: str | None) -> State:
    """Return the state of an id, UNKNOWN for none or for one of a newer version."""
    return _BY_ID.get(status or "", UNKNOWN)


def unreadable_state(device: AnyDevice) -> State | None:
    """Return why a device is not read, None if it is; an unknown reason is a failure."""
    return None if device.state == "ok" else _BY_ID.get(device.state, FAILED)


def is_suspended_on_purpose(device: AnyDevice) -> bool:
    """Whether a device is not read although nothing is wrong: it sleeps, or is about to."""
    state = unreadable_state(device)
    return state is not None and not state.is_problem


def lists_processes(device: AnyDevice, unlisted: Set[str]) -> bool:
    """Whether the processes of a device are known; `unlisted` are UUIDs of those without a list.

    One that is out of order lists none, and a sleeping device has none.
    """
    is_read = device.state == "ok" or is_suspended_on_purpose(device)
    return is_read and unlisted.isdisjoint({device.uuid, device.parent_uuid})
