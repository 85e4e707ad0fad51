"""nvidia-smi -q -x: XML elements from the same rows as the text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from xml.sax.saxutils import escape, quoteattr

from gpudash.model.snapshot import Snapshot, whole_gpus
from gpudash.output.smi_details import UNITS, heads
from gpudash.output.smi_layout import branch
from gpudash.output.smi_lines import fields_of, resolved
from gpudash.output.smi_lists import Node
from gpudash.output.smi_sections import PARTS

_QUOTES = {'"': "&quot;", "'": "&apos;"}
_VERSIONS = {580: 13, 0: 12}
"""The version of the DTD, by the driver since which it applies."""
_LINES = [line for part in PARTS for line in part.lines if line.element]


def reads() -> frozenset[str]:
    """Return the fields of devices, and `processes`, that the document needs."""
    return fields_of(_LINES)


def document(
    snapshot: Snapshot, chosen: Collection[str], *, with_dtd: bool = False
) -> Sequence[str]:
    """Return the lines of a document about the GPUs with the `chosen` keys."""
    found = list(heads(snapshot))
    identities = []
    for device in whole_gpus(snapshot):
        if device.key in chosen:
            identities.append(str(device.pci_bus_id or device.index))
            found.append(Node("", "gpu", None, tuple(resolved(_LINES, snapshot, device))))
    name = f"nvsmi_device_v{_version(snapshot)}.dtd"
    return list(_document(name, found, identities, with_dtd=with_dtd))


def unit_document(snapshot: Snapshot, *, with_dtd: bool = False) -> Sequence[str]:
    """Return the lines of a document about units; there are none."""
    nodes = [*heads(snapshot)[:-1], *UNITS]
    name = f"nvsmi_unit_v{_version(snapshot)}.dtd"
    return list(_document(name, nodes, (), with_dtd=with_dtd))


def _version(snapshot: Snapshot) -> int:
    release = branch(snapshot)
    return next(number for since, number in _VERSIONS.items() if release >= since)


def _document(
    name: str, nodes: Sequence[Node], identities: Sequence[str], *, with_dtd: bool
) -> Iterator[str]:
    yield '<?xml version="1.0" ?>'
    if with_dtd:
        yield "<!DOCTYPE nvidia_smi_log ["
        yield f"<!-- {name} -->"
        yield from _declarations(nodes)
        yield "]>"
    else:
        yield f'<!DOCTYPE nvidia_smi_log SYSTEM "{name}">'
    yield "<nvidia_smi_log>"
    identified = iter(identities)
    for node in nodes:
        if node.element == "gpu":
            yield f"\t<gpu id={quoteattr(next(identified))}>"
            yield from _elements(node.nodes, 2)
            yield "\t</gpu>"
            yield ""
        else:
            yield from _elements([node], 1)
    yield "</nvidia_smi_log>"


def _elements(nodes: Iterable[Node], depth: int) -> Iterator[str]:
    """Yield the lines of nodes with an element; nodes below a value are put beside it."""
    indent = "\t" * depth
    for node in nodes:
        name, text = node.element, None if node.value is None else _escaped(node.value)
        if name and text is None:
            yield f"{indent}<{name}>"
            # nvidia-smi indents MIG devices no more than their parent.
            yield from _elements(
                node.nodes, depth + (name != "mig_devices" or not node.nodes[0].element)
            )
            yield f"{indent}</{name}>"
        elif name:
            yield f"{indent}<{name}>{text}</{name}>"
            yield from _elements(node.nodes, depth)
        elif text is not None and not node.label:
            yield f"{indent}{text}"


def _escaped(text: str) -> str:
    """Return a text as an element's content, with invalid characters as question marks."""
    kept = "".join(each if each.isprintable() else "?" for each in text)
    return escape(kept, _QUOTES)


def _declarations(nodes: Sequence[Node]) -> Iterator[str]:
    """Yield the DTD of a document: the elements within each."""
    below: dict[str, dict[str, None]] = {"nvidia_smi_log": {}}

    def note(parent: str, nodes: Iterable[Node]) -> None:
        for node in nodes:
            if node.element:
                below[parent].setdefault(node.element)
                below.setdefault(node.element, {})
            holder = node.element if node.element and node.value is None else parent
            note(holder, node.nodes if node.element else ())

    note("nvidia_smi_log", nodes)
    for name, held in below.items():
        yield f"<!ELEMENT {name} ({' | '.join(('#PCDATA', *held))}){'*' if held else ''}>"
    yield "<!ATTLIST gpu id CDATA #REQUIRED>"
