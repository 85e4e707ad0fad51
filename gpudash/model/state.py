"""The states of a device: one table of words for header, columns, findings and messages.

The values of `Device.state` are reasons why a device is not read; the others are activities of a
readable device, decided by `analysis.activity`. `Device.status` has the id of any of them. A new
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
    """Its id in documents: `Device.status`, and `Device.state` if it is unreadable."""
    word: str
    """In the STATUS column and, after a number, in the header; capitals if it cannot be read."""
    fact: str
    """The text after the name of a device, or of several, in the form for `inflected`."""
    level: Level
    is_problem: bool = False
    """Whether the device itself has a fault, regardless of its use."""
    is_free: bool = False
    """Whether it is available to the next user."""
    is_unreadable: bool = False
    """Whether it is a reason for not reading a device: a `Device.state` other than ok."""
    reason: str = ""
    """Why a device without a fault is not read."""
    letter: str = ""
    """A unique letter on the map of many hosts; empty if drawn by value."""

    @property
    def sentence(self) -> str:
        """The text after the name of one device: `needs a reset`."""
        return inflected(1, self.fact)

    @property
    def is_broken(self) -> bool:
        """Whether it is useless for jobs: its problem is more than heat."""
        return self.is_problem and self is not HOT


# In the order of the header: states that need a person come first.
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
"""The state as which the header counts devices with acknowledged faults."""
_FINE = STATES.index(BUSY)
COUNTED = (*STATES[:_FINE], ACKNOWLEDGED, *STATES[_FINE:])
"""All states that the header counts, in order: acknowledged faults precede healthy states."""

RANKS = {state.id: rank for rank, state in enumerate(STATES)}
"""The position in that order, by the id of a state."""
_BY_ID: dict[str, State] = {state.id: state for state in COUNTED}


def state_of(status: str | None) -> State:
    """Return the state of an id, UNKNOWN for none or one of a newer version."""
    return _BY_ID.get(status or "", UNKNOWN)


def unreadable_state(device: AnyDevice) -> State | None:
    """Return why a device is not read, None if it is; an unknown reason is a failure."""
    return None if device.state == "ok" else _BY_ID.get(device.state, FAILED)


def is_suspended_on_purpose(device: AnyDevice) -> bool:
    """Whether a device is not read although it is healthy: it sleeps, or is about to."""
    state = unreadable_state(device)
    return state is not None and not state.is_problem


def lists_processes(device: AnyDevice, unlisted: Set[str]) -> bool:
    """Whether the processes of a device are known; `unlisted` are UUIDs of those without a list.

    A faulty device lists none, and a sleeping one has none.
    """
    is_read = device.state == "ok" or is_suspended_on_purpose(device)
    return is_read and unlisted.isdisjoint({device.uuid, device.parent_uuid})
