"""What CUDA calls the devices that a process may use, and which of the host they are."""

from __future__ import annotations

from rich.segment import Segment

from gpudash.analysis.labels import VisibleDevices, device_labels, short_name
from gpudash.model.text import fold
from gpudash.tui.draw.grid import MARGIN
from gpudash.tui.draw.line import Line
from gpudash.tui.draw.process_page.head import Sight
from gpudash.tui.theme import Theme

_TITLE = "CUDA_VISIBLE_DEVICES"
_ENTRY = 40
"""Cells that are enough for one device, of which several stand side by side."""


def cuda(sight: Sight, theme: Theme, cells: int) -> list[Line]:
    """Return the variable and the devices that it means; nothing while it is not known."""
    seen = sight.inspection
    if seen is None or seen.visible is None:
        return []
    visible, room = seen.visible, cells - 2 * MARGIN
    lines: list[Line] = [_title(visible, theme)]
    names = _names(visible, sight)
    across = max(1, room // _ENTRY)
    for start in range(0, len(names), across):
        line = [Segment(" " * MARGIN, theme.base)]
        for number, name in names[start : start + across]:
            line += [
                Segment(number, theme.strong),
                Segment(f" = {name}".ljust(_ENTRY - len(number)), theme.base),
            ]
        lines.append(line)
    for remark in visible.remarks:
        lines += [[Segment(" " * MARGIN + text, theme.warn)] for text in fold(remark, max(1, room))]
    return lines


def _title(visible: VisibleDevices, theme: Theme) -> Line:
    value = "is not set: CUDA sees every GPU" if visible.value is None else f"= {visible.value}"
    title = [
        Segment(" " * MARGIN + _TITLE, theme.heading),
        Segment(f" {value}", theme.dim if visible.value is None else theme.base),
    ]
    return [*title, Segment("  (a guess)", theme.warn)] if visible.is_guess else title


def _names(visible: VisibleDevices, sight: Sight) -> list[tuple[str, str]]:
    labels = device_labels(sight.snapshot.devices)
    return [
        (f"CUDA {number}", f"GPU {labels.get(device.key, '?')} ({short_name(device)})")
        for number, device in enumerate(visible.devices)
    ]
