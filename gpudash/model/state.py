"""The states of a device: one table, from which header, columns, findings and messages take words.

A state that the document has (`Device.state`) is the reason why a device is not read; the others
are what a readable device does, found by `analysis.usage.device_states`. A new state is one row
here and its detection there.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gpudash.model.device import Device, DeviceState

Level = Literal["unknown", "ok", "warn", "critical"]
"""How bad a value or a state is."""


class State(Struct, frozen=True):
    """One state of a device."""

    word: str
    """In the column STATUS and, behind a number of devices, in the header; loud if unreadable."""
    sentence: str
    """Behind the name of one device: `needs a reset`."""
    plural: str
    """The same of several devices: `need a reset`."""
    level: Level
    is_problem: bool = False
    """Whether something is wrong with the device itself, not with its use."""
    is_free: bool = False
    """Whether the next person may have it."""
    wire: DeviceState | None = None
    """What `Device.state` is then; None for a state of readable devices."""
    reason: str = ""
    """Why a device without a fault is not read."""


# In the order of the header: what needs a person comes first.
# fmt: off
LOST = State("LOST", "fell off the bus", "fell off the bus", "critical",
            is_problem=True, wire="lost")
NOT_ANSWERING = State("NO ANSWER", "does not answer", "do not answer", "critical",
                     is_problem=True, wire="not-answering")
RESET_REQUIRED = State("RESET", "needs a reset", "need a reset", "critical",
                      is_problem=True, wire="reset-required")
FAILED = State("FAILED", "cannot be read", "cannot be read", "critical",
              is_problem=True, wire="failed")
HOT = State("hot", "is so hot that it slows itself down", "are so hot that they slow down", "warn",
           is_problem=True)
BUSY = State("busy", "is computing", "are computing", "ok")
HELD = State("held idle", "is held by processes that do not use it",
            "are held by processes that do not use them", "warn")
IN_USE = State("in use", "has memory or processes in use, and pauses",
              "have memory or processes in use, and pause", "ok")
LEASED = State("leased", "is leased and not used yet", "are leased and not used yet", "ok")
NO_INSTANCES = State("MIG empty", "is in MIG mode without instances, where nothing can run",
                    "are in MIG mode without instances, where nothing can run", "ok")
FREE = State("free", "is not used by anyone", "are not used by anyone", "ok", is_free=True)
UNKNOWN = State("unknown", "does not report whether it is used",
               "do not report whether they are used", "unknown")
RESTING = State("resting", "is left alone to fall asleep", "are left alone to fall asleep",
               "unknown", wire="resting", reason="left alone so that it can fall asleep")
ASLEEP = State("asleep", "is asleep", "are asleep", "unknown", wire="asleep",
              reason="powered down, not woken to be read")
# fmt: on

STATES = tuple(row for row in list(globals().values()) if isinstance(row, State))
"""Every state, in the order in which the header counts them."""

_BY_WIRE: dict[str, State] = {state.wire: state for state in STATES if state.wire}


def unreadable_state(device: Device) -> State | None:
    """Return why a device is not read, None if it is; an unknown reason is a failure."""
    return None if device.state == "ok" else _BY_WIRE.get(device.state, FAILED)


def is_suspended_on_purpose(device: Device) -> bool:
    """Whether a device is not read although nothing is wrong: it sleeps, or is about to."""
    state = unreadable_state(device)
    return state is not None and not state.is_problem
