"""Every key in one table: bindings, footer, help screen, settings and README read it."""

from __future__ import annotations

from gpudash.tui.keymap.binding import bindings
from gpudash.tui.keymap.device import DEVICE_KEYS
from gpudash.tui.keymap.key import Key
from gpudash.tui.keymap.kill import KILL_KEYS
from gpudash.tui.keymap.overview import (
    OVERVIEW_KEYS,
    keys_on_devices,
    keys_while_stopped,
    labelled,
    signalling_keys,
)
from gpudash.tui.keymap.views import FINDINGS_KEYS, LINKS_KEYS, PROCESS_KEYS, USERS_KEYS, VIEW_KEYS

__all__ = [
    "DEVICE_KEYS",
    "FINDINGS_KEYS",
    "KEYS",
    "KILL_KEYS",
    "LINKS_KEYS",
    "OVERVIEW_KEYS",
    "PROCESS_KEYS",
    "SCREENS",
    "USERS_KEYS",
    "VIEW_KEYS",
    "Key",
    "bindings",
    "keys_on_devices",
    "keys_while_stopped",
    "labelled",
    "signalling_keys",
]

SCREENS: tuple[tuple[Key, ...], ...] = (
    OVERVIEW_KEYS,
    VIEW_KEYS,
    DEVICE_KEYS,
    FINDINGS_KEYS,
    LINKS_KEYS,
    USERS_KEYS,
    PROCESS_KEYS,
    KILL_KEYS,
)
"""The keys of each screen."""

KEYS: tuple[Key, ...] = tuple(dict.fromkeys(key for keys in SCREENS for key in keys))
"""Every key there is."""
