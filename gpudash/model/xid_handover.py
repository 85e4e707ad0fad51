"""What one collector leaves to the next: the XIDs that it was told of, which nobody tells again.

A screen starts another collector after a release of the GPUs, and when one hangs or has ended.
The next one is given, in its environment, what was reported and what tells of a reset.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from gpudash.model.device import Device
from gpudash.model.snapshot import Snapshot

_VARIABLE = "GPUDASH_KEEPSAKE"
_KEPT = (
    "index",
    "uuid",
    "state",
    "xid_events",
    "total_energy_mj",
    "pcie_replay_count",
    "remapped_rows_pending",
    "retired_pages_pending",
    "recovery_action",
)
_NOTHING: Mapping[str, str] = {}
_MOST_EVENTS = 8
_MOST_BYTES = 100_000
"""A variable of 128 KiB, or one that the locale cannot spell, would keep it from being started."""


def left_by(snapshot: Snapshot | None, before: Mapping[str, str] = _NOTHING) -> dict[str, str]:
    """Return what the last snapshot leaves as a variable, none where nothing was reported.

    Of a GPU of which it tells nothing that is what was left `before`: its collector may not have
    come so far as to read it.
    """
    devices = snapshot.devices if snapshot is not None else ()
    told = {device.uuid for device in devices if device.xid_events is not None}
    untold = (device for uuid, device in found_in(before).items() if uuid not in told)
    kept = [_kept(each) for each in (*devices, *untold) if each.uuid and each.xid_events]
    text = msgspec.json.encode(kept).decode() if kept else ""
    is_carried = text.isascii() and 0 < len(text) <= _MOST_BYTES
    return {_VARIABLE: text} if is_carried else {}


def found_in(environ: Mapping[str, str]) -> dict[str, Device]:
    """Return what a collector before left, by UUID; what is not that is nothing."""
    text = environ.get(_VARIABLE)
    if not text:
        return {}
    try:
        devices = msgspec.json.decode(text, type=list[Device])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return {}
    return {device.uuid: device for device in devices if device.uuid and device.xid_events}


def _kept(device: Device) -> dict[str, Any]:
    fields = {name: getattr(device, name) for name in _KEPT}
    return {**fields, "xid_events": (device.xid_events or ())[-_MOST_EVENTS:]}
