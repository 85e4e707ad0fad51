"""Data of a process: its identity, its state, its devices, and those that CUDA sees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from msgspec.structs import replace
from rich.segment import Segment

from gpudash.analysis.health.levels import works_on_cpu
from gpudash.analysis.history.metrics import ProcessKey
from gpudash.analysis.inspection import Inspection, IoRates
from gpudash.analysis.labels import (
    VisibleDevices,
    command,
    short_command,
    short_name,
)
from gpudash.analysis.table import Column, ProcessRow, amount, word, work
from gpudash.model.device import Device, device_labels
from gpudash.model.process import Process, ProcessDevice
from gpudash.model.secrets import mask_arguments
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import cut, fold, pad, width
from gpudash.model.units import ABSENT, Unit, duration, percent, ratio, readable, short_size, size
from gpudash.tui.draw.grid import MARGIN, Grid, within_margins
from gpudash.tui.draw.line import Line, joined, spread
from gpudash.tui.theme import Theme

SPANS = (60.0, 120.0, 300.0)
"""The spans of curves to choose from, in seconds."""


def span_of(seen_seconds: float) -> float:
    """Return the span of curves for a process that has been seen this long."""
    return next((span for span in SPANS if seen_seconds <= span), SPANS[-1])


class ProcessDetails(NamedTuple):
    """A process as last seen, with data beyond its row."""

    row: ProcessRow
    snapshot: Snapshot
    mark: str = ""
    """Why the numbers of the row are out of date, empty if they are not."""
    series: Callable[[str, int], Sequence[float | None]] = lambda _field, points: [None] * points
    """Returns that many points of one of PROCESS_METRICS over the last `span` seconds."""
    span: float = SPANS[-1]
    inspection: Inspection | None = None
    waiting: str = ""
    """Why the first reading is awaited, or that the next one is overdue; else empty."""
    io_rates: IoRates = IoRates()
    """Between the last two readings."""
    cpu_percents: Mapping[ProcessKey, float] = MappingProxyType({})
    """CPU use of its relatives between the last two readings."""
    shows_secrets: bool = False
    reveal_key: str = "x"
    """The key that shows and hides secrets."""

    def command(self, process: Process, *, short: bool = False) -> str:
        """Return a command line, with secrets hidden unless requested."""
        if process.command_line:
            process = replace(process, command_line=self._arguments(process))
        return short_command(process) if short else command(process)

    def _arguments(self, process: Process) -> tuple[str, ...]:
        line = tuple(process.command_line or ())
        is_whole = not line or not line[-1].endswith("…")
        if self.inspection is None or process.key != self.row.process.key:
            whole = line
        else:
            # A snapshot has only the beginning, without secrets; this reading has all of it.
            whole = self.inspection.command_line or line
        if self.shows_secrets:
            return whole
        return _masked(line if is_whole else whole)


_masked = lru_cache(maxsize=512)(mask_arguments)


_LABEL = 9
_FACT = 26
"""Width of a label and a short value."""
_MAX_ACROSS = 4
_MAX_COMMAND_LINES = 3
Fact = tuple[str, str]


def head(details: ProcessDetails, theme: Theme, cells: int) -> list[Line]:
    """Return the name and all facts that are numbers or short texts."""
    room = cells - 2 * MARGIN
    across = max(1, min(_MAX_ACROSS, room // _FACT))
    facts = _facts(details)
    lines = [_title(details, theme, cells), []]
    for start in range(0, len(facts), across):
        lines.append(_beside(facts[start : start + across], room // across, theme))
    for label, text in _location_facts(details):
        lines.append(_labelled(label, theme.cut(text, room - _LABEL), theme))
    for number, text in enumerate(_shown_command(details, room - _LABEL, theme)):
        lines.append(_labelled("" if number else "command", text, theme))
    return lines


def command_is_cut(details: ProcessDetails, cells: int) -> bool:
    """Whether the head at this width shows only the beginning of the command line."""
    return len(_command_lines(details, cells - 2 * MARGIN - _LABEL)) > _MAX_COMMAND_LINES


def _title(details: ProcessDetails, theme: Theme, cells: int) -> Line:
    process = details.row.process
    name = (process.command_line or ("",))[0].rpartition("/")[2].partition(" ")[0]
    left = [
        Segment(" " * MARGIN, theme.base),
        Segment(str(process.pid), theme.strong),
        Segment("  ", theme.base),
        Segment(process.name or name or ABSENT, theme.title),
    ]
    if process.username:
        left += [Segment(" of ", theme.dim), Segment(process.username, theme.owner)]
    left.append(Segment(f"  on GPU {details.row.gpus}", theme.dim))
    right: Line = []
    if details.mark:
        right = [Segment(f" {details.mark} ", theme.mark)]
    elif details.waiting:
        right = [Segment(details.waiting + theme.glyphs.ellipsis, theme.dim)]
    return spread(left, [*right, Segment(" " * MARGIN, theme.base)], cells, theme.base)


def _facts(details: ProcessDetails) -> list[Fact]:
    process = details.row.process
    usage = details.inspection.usage if details.inspection else None
    rates = details.io_rates
    facts = [
        ("state", process.status or ABSENT),
        ("time", duration(details.row.age_seconds)),
        ("cpu", readable(process.cpu_percent, Unit.PERCENT)),
        ("rss", _of_host(process.resident_memory_bytes, details.snapshot.host.memory_total_bytes)),
    ]
    if usage is None or usage.thread_count is not None or usage.open_file_count is not None:
        facts += [
            ("threads", readable(usage and usage.thread_count)),
            ("files", readable(usage and usage.open_file_count)),
            ("disk rd", readable(rates.read, Unit.BYTE_PER_SECOND)),
            ("disk wr", readable(rates.written, Unit.BYTE_PER_SECOND)),
        ]
    if usage is not None and usage.received_bytes is not None:
        # Those of its network namespace, such as a container's: Linux does not count by process.
        facts += [
            ("net in", readable(rates.received, Unit.BYTE_PER_SECOND)),
            ("net out", readable(rates.sent, Unit.BYTE_PER_SECOND)),
        ]
    return facts


def _of_host(amount: int | None, total: int | None) -> str:
    """Return an amount, and its share of the host's memory, if known."""
    if amount is None or not total:
        return size(amount)
    percent = 100 * amount / total
    return f"{size(amount)}  {'<1' if 0 < percent < 1 else f'{percent:.0f}'}%"


def _location_facts(details: ProcessDetails) -> list[Fact]:
    """Return what it belongs to and where it runs, as far as known."""
    facts = []
    if details.row.process.job is not None:
        facts.append(("job", details.row.process.job.label))
    if details.inspection is not None and details.inspection.usage.working_directory is not None:
        facts.append(("folder", str(details.inspection.usage.working_directory)))
    return facts


def _shown_command(details: ProcessDetails, cells: int, theme: Theme) -> list[str]:
    lines = _command_lines(details, cells)
    shown = lines[:_MAX_COMMAND_LINES]
    if len(lines) > _MAX_COMMAND_LINES:
        mark = theme.glyphs.ellipsis
        shown[-1] = (
            cut(f"{shown[-1]} {lines[_MAX_COMMAND_LINES]}", max(0, cells - 1), mark="") + mark
        )
    return shown


def _command_lines(details: ProcessDetails, cells: int) -> list[str]:
    return fold(details.command(details.row.process), cells)


def _beside(facts: Sequence[Fact], cells: int, theme: Theme) -> Line:
    line = [Segment(" " * MARGIN, theme.base)]
    for label, text in facts:
        value, unit = text.rsplit(" ", 1) if " " in text else (text, "")
        style = theme.faint if text == ABSENT else theme.base
        taken = len(value) + len(unit) + bool(unit)
        line += [
            Segment(pad(label, _LABEL), theme.dim),
            Segment(value, style),
            Segment(f" {unit}" if unit else "", theme.dim),
            Segment(" " * max(1, cells - _LABEL - taken), theme.base),
        ]
    return line


def _labelled(label: str, text: str, theme: Theme) -> Line:
    return [
        Segment(" " * MARGIN, theme.base),
        Segment(pad(label, _LABEL), theme.dim),
        Segment(text, theme.base),
    ]


_VARIABLE = "CUDA_VISIBLE_DEVICES"
_VISIBLE_GAP = 2
"""Gap between devices side by side."""


def cuda(details: ProcessDetails, theme: Theme, cells: int) -> list[Line]:
    """Return the variable and the devices that it selects; empty if unknown."""
    seen = details.inspection
    if seen is None or seen.visible is None:
        return []
    visible, room = seen.visible, cells - 2 * MARGIN
    lines: list[Line] = [_cuda_title(visible, theme)]
    names = _visible_names(visible, details)
    column = max((width(f"{number} = {name}") for number, name in names), default=0) + _VISIBLE_GAP
    across = max(1, room // column)
    for start in range(0, len(names), across):
        line = [Segment(" " * MARGIN, theme.base)]
        for number, name in names[start : start + across]:
            line += [
                Segment(number, theme.strong),
                Segment(pad(f" = {name}", column - width(number)), theme.base),
            ]
        lines.append(line)
    for remark in visible.remarks:
        lines += within_margins(remark, theme.warn, cells)
    return lines


def _cuda_title(visible: VisibleDevices, theme: Theme) -> Line:
    value = "is not set: CUDA sees every GPU" if visible.value is None else f"= {visible.value}"
    title = [
        Segment(" " * MARGIN + _VARIABLE, theme.heading),
        Segment(f" {value}", theme.dim if visible.value is None else theme.base),
    ]
    return [*title, Segment("  (a guess)", theme.warn)] if visible.is_guess else title


def _visible_names(visible: VisibleDevices, details: ProcessDetails) -> list[tuple[str, str]]:
    labels = device_labels(details.snapshot.devices)
    return [
        (f"CUDA {number}", f"GPU {labels.get(device.key, '?')} ({short_name(device)})")
        for number, device in enumerate(visible.devices)
    ]


_MIN_BAR = 5
_MIN_IDLE_SECONDS = 10
"""Seconds without work that deserve a sentence."""


class DeviceUse(NamedTuple):
    """A process's use of a device, with the device if the snapshot has it."""

    label: str
    device: Device | None
    used: ProcessDevice


def _share(share: DeviceUse) -> float | None:
    total = share.device.memory_total_bytes if share.device else None
    return ratio(share.used.used_gpu_memory_bytes, total)


def _percent_of_memory(share: DeviceUse) -> float | None:
    part = _share(share)
    return None if part is None else 100 * part


def _percent_column(key: str, header: str, cells: int, priority: int = 0) -> Column[DeviceUse]:
    return amount(
        key,
        header,
        lambda share: getattr(share.used, f"{key}_utilization_percent"),
        percent,
        cells,
        least=cells,
        priority=priority,
        graded=work if key == "sm" else None,
    )


_SHARE_COLUMNS: tuple[Column[DeviceUse], ...] = (
    word("index", "GPU", lambda s: s.label, 6),
    word("name", "NAME", lambda s: short_name(s.device) if s.device else None, 24, priority=5),
    word("type", "TYPE", lambda s: s.used.type, 5),
    amount(
        "memory", "GPU-MEM", lambda s: s.used.used_gpu_memory_bytes, short_size, 7, share=_share
    ),
    amount("part", "MEM%", _percent_of_memory, percent, 4, priority=3),
    _percent_column("sm", "UTIL", 4),
    _percent_column("memory", "MEM-BW", 6, 1),
    _percent_column("encoder", "ENC", 4, 4),
    _percent_column("decoder", "DEC", 4, 4),
)


def shares(details: ProcessDetails, theme: Theme, cells: int) -> list[Line]:
    """Return headings, devices, and a sentence about a process that holds them idle."""
    found = _shares(details)
    grid = Grid(_SHARE_COLUMNS, {"index": "strong", "type": "dim"}, bar=_MIN_BAR)
    drawn = grid.rows(found, (), cells, found, lambda share: joined(grid.draw(share, theme)))
    lines = [grid.heading(theme), *drawn]
    idle = _idle_text(details)
    return [*lines, *within_margins(idle, theme.warn, cells)] if idle else lines


def _shares(details: ProcessDetails) -> Sequence[DeviceUse]:
    labels = device_labels(details.snapshot.devices)
    devices = {device.key: device for device in details.snapshot.devices}
    return [
        DeviceUse(
            labels.get(used.uuid or "", str(used.index)),
            devices.get(used.uuid or ""),
            used,
        )
        for used in details.row.process.devices
    ]


def _idle_text(details: ProcessDetails) -> str:
    seconds = details.row.process.idle_seconds
    if details.mark or seconds is None or seconds < _MIN_IDLE_SECONDS:
        return ""
    held = details.row.process.used_gpu_memory_bytes
    what = "its GPU" if held is None else size(held)
    word = "busy on its CPU" if works_on_cpu(details.row.process) else "idle"
    return f"{word}: it has held {what} for {duration(seconds)} without computing"
