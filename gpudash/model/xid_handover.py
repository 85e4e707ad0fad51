"""XID events handed over to the next collector; the driver reports each only once.

A collector is replaced after a release of the GPUs, and when it hangs or has ended. The next one
gets, in its environment, the events reported so far and data that reveal a reset since.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from gpudash.model.device import Device
from gpudash.model.snapshot import Snapshot

_VARIABLE = "GPUDASH_XID_HANDOVER"
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
_MAX_EVENTS = 8
_MAX_BYTES = 100_000
"""Below the 128 KiB of a variable, beyond which no process can be started."""


def encode_handover(
    snapshot: Snapshot | None, before: Mapping[str, str] = _NOTHING
) -> dict[str, str]:
    """Return the variable that hands over the events of the last snapshot, none without events.

    A GPU whose events are unknown in the snapshot keeps those handed over `before`: its collector
    may have ended before it read that GPU.
    """
    devices = snapshot.devices if snapshot is not None else ()
    known = {device.uuid for device in devices if device.xid_events is not None}
    earlier = (device for uuid, device in decode_handover(before).items() if uuid not in known)
    kept = [_kept(each) for each in (*devices, *earlier) if each.uuid and each.xid_events]
    text = msgspec.json.encode(kept).decode() if kept else ""
    # The locale may not support text beyond ASCII.
    is_carried = text.isascii() and 0 < len(text) <= _MAX_BYTES
    return {_VARIABLE: text} if is_carried else {}


def decode_handover(environ: Mapping[str, str]) -> dict[str, Device]:
    """Return the devices handed over, by UUID; none if the variable is malformed."""
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
    return {**fields, "xid_events": (device.xid_events or ())[-_MAX_EVENTS:]}
