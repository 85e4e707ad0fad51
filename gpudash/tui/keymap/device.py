"""The keys of the view of a GPU."""

from __future__ import annotations

from gpudash.tui.keymap.key import DIGITS, Key, key, under
from gpudash.tui.keymap.views import VIEW_KEYS

DEVICE_KEYS: tuple[Key, ...] = (
    *VIEW_KEYS,
    *under(
        "In the view of a GPU",
        key("device.next", "right,n", "→", "turn(1)", "the next GPU (also n)", label="next"),
        key("device.previous", "left,b", "←", "turn(-1)", "the GPU before (also b)"),
        key("device.metric", "tab", "Tab", "metric(1)", "chart the next metric", label="metric"),
        key("device.metric_before", "shift+tab", "S-Tab", "metric(-1)", "chart the metric before"),
        key("device.list", "l", "l", "list_metrics", "choose the metric by name", label="list"),
        key("device.range", "r", "r", "range", "the last 1, 5 or 30 minutes", label="range"),
        key("device.zoom_in", "plus,equals_sign", "+", "zoom(-1)", "a shorter time", label="zoom"),
        key("device.zoom_out", "minus", "-", "zoom(1)", "a longer time"),
        key(
            "device.all",
            "a",
            "a",
            "overlay_all",
            "the curves of all GPUs (the 8 highest), or one",
            label="all",
        ),
        key("device.shared", "o", "o", "overlay_shared", "all GPUs that its processes use"),
        key("device.toggle", DIGITS, "0-9", "overlay({key})", "the curve of that GPU as well"),
        key("device.fit", "v", "v", "fit", "the values that occur, or the whole scale"),
        key("device.large", "z", "z", "large", "the chart alone", label="large"),
        key("device.explain", "x", "x", "explain", "what each metric means", label="explain"),
    ),
)
"""The keys of the view of a device."""
