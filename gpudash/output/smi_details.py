"""nvidia-smi -q: the details of a GPU, with its sections, labels and indentation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from time import ctime

from gpudash.model.device import Device
from gpudash.model.errors import UsageError
from gpudash.model.snapshot import Snapshot, whole_gpus
from gpudash.model.state import unreadable_state
from gpudash.model.text import clean, did_you_mean
from gpudash.output.smi_layout import branch
from gpudash.output.smi_lines import fields_of, resolved
from gpudash.output.smi_lists import ABSENT, Node
from gpudash.output.smi_sections import PARTS, Part

_WIDTHS = {580: 55, 0: 42}
"""Width of the label column, by the driver since which it applies."""

_TITLE = ("", "==============NVSMI LOG==============", "")
UNITS = (
    Node("HIC Info", "", ABSENT),
    Node("", "hic_info", None),
    Node("Attached Units", "attached_units", "0"),
)

SECTIONS = tuple(dict.fromkeys(part.section for part in PARTS if part.section))
"""The values for -d."""


def sections(text: str | None) -> tuple[str, ...]:
    """Return the sections in -d, none for all; raises UsageError."""
    names = list(filter(None, (name.strip().upper() for name in (text or "").split(","))))
    for name in names:
        if name not in SECTIONS:
            hint = did_you_mean(name, SECTIONS) or f"choose from {', '.join(SECTIONS)}"
            raise UsageError(f"-d {clean(name, 40)!r}: {hint}")
    return tuple(names)


def reads(names: Collection[str]) -> frozenset[str]:
    """Return the fields of devices, and `processes`, that these sections need."""
    return fields_of(line for part in _parts(names) for line in part.lines)


def details(snapshot: Snapshot, chosen: Collection[str], names: Collection[str]) -> Sequence[str]:
    """Return the lines of these sections, of the GPUs with the `chosen` keys."""
    width = _width(snapshot)
    *versions, gpus = heads(snapshot)
    lines = [*_TITLE, *_lines(versions, width), "", *_lines([gpus], width)]
    for device in whole_gpus(snapshot):
        if device.key in chosen:
            lines += _gpu(snapshot, device, _parts(names), width)
    return lines


def unit_details(snapshot: Snapshot) -> Sequence[str]:
    """Return the lines about units, S-class boxes of GPUs; there are none."""
    width = _width(snapshot)
    versions = _lines(heads(snapshot)[:-1], width)
    return [*_TITLE, *versions, "", *_lines(UNITS, width), ""]


def heads(snapshot: Snapshot) -> Sequence[Node]:
    """Return the beginning of a log."""
    host = snapshot.host
    return (
        Node("Timestamp", "timestamp", ctime(snapshot.taken_at.timestamp())),
        Node("Driver Version", "driver_version", host.driver_version or ABSENT),
        Node("CUDA Version", "cuda_version", host.cuda_driver_version or ABSENT),
        Node("Attached GPUs", "attached_gpus", str(len(whole_gpus(snapshot)))),
    )


def _width(snapshot: Snapshot) -> int:
    return next(width for since, width in _WIDTHS.items() if branch(snapshot) >= since)


def _gpu(snapshot: Snapshot, device: Device, parts: Sequence[Part], width: int) -> Iterator[str]:
    yield f"GPU {device.pci_bus_id or device.index}"
    state = unreadable_state(device)
    if state is not None:
        reason = state.sentence if device.fault is None else device.fault.message
        yield from _lines([Node("State", "", reason)], width, 1)
    for part in parts:
        yield from _lines(resolved(part.lines, snapshot, device), width, 1)
    yield ""


def _lines(nodes: Iterable[Node], width: int, depth: int = 0) -> Iterator[str]:
    for node in nodes:
        if node.label:
            start = f"{'    ' * depth}{node.label}"
            is_heading = node.value is None and node.nodes
            yield (
                start
                if is_heading
                else f"{start:<{width}}: {'None' if node.value is None else node.value}"
            )
        yield from _lines(node.nodes, width, depth + bool(node.label))


def _parts(names: Collection[str]) -> Sequence[Part]:
    if names:
        return [part for part in PARTS if part.section in names]
    return [part for part in PARTS if not part.is_extra]
