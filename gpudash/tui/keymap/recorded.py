"""The keys of a recording's screen, where some do something else, and those of a live one."""

from __future__ import annotations

from collections.abc import Iterable

from gpudash.tui.keymap.key import Key

_HELPS = {
    "time.pause": "stop, or play on",
    "time.forward": "the sample after",
    "time.longer": "faster",
    "time.shorter": "slower",
    "filter.clear": "no tags, then no filter, then all GPUs",
}
_LABELS = {
    "time.pause": "stop",
    "time.back": "back",
    "time.forward": "next",
    "time.longer": "faster",
}
_ONLY_RECORDED = frozenset({"time.seek"})
_ONLY_LIVE = ("driver.",)


def recorded_keys(keys: Iterable[Key]) -> list[Key]:
    """Return keys as they work on a recording, whose processes nothing can be sent to."""
    return [
        key._replace(help=_HELPS.get(key.id, key.help), label=_LABELS.get(key.id, key.label))
        for key in keys
        if not key.id.startswith(_ONLY_LIVE) and not key.signals
    ]


def live_keys(keys: Iterable[Key]) -> list[Key]:
    """Return keys as they work on a host."""
    return [key for key in keys if key.id not in _ONLY_RECORDED]
