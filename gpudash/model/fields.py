"""The declaration of a metric, and what is derived from it.

A field of a snapshot carries beside its type its group, unit, help and NVML call, and the names
under which other programs know it. JSON Schema, CSV, detail view, charts, nvidia-smi's queries,
the exporter and README follow from these.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from enum import Enum
from functools import cache
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from gpudash.model.units import Unit

_MAX = 2**63 - 1
_YEAR_9999 = 253_370_764_800
MAX_AMOUNT = 1e18

# The range of numbers, wider than the collector's, so that a document is only rejected for
# values that no host can have.
Index = Annotated[int, Meta(ge=0, le=2**32 - 1)]
"""A number that identifies something: an index, a PID, an id, a code."""
Natural = Annotated[int, Meta(ge=0, le=_MAX)]
"""A number of bytes, errors, milliwatts, percent, ..."""
Integer = Annotated[int, Meta(ge=-_MAX, le=_MAX)]
Celsius = Annotated[int, Meta(ge=-1000, le=1000)]
"""A temperature, or a margin below one."""
Amount = Annotated[float, Meta(ge=0, le=MAX_AMOUNT)]
Seconds = Annotated[float, Meta(ge=0, le=_YEAR_9999)]
"""A span, or a Unix time."""

_UNIT_WORDS = (
    "bytes_per_second",
    "bytes",
    "percent",
    "celsius",
    "mw",
    "mj",
    "mhz",
    "seconds",
    "microseconds",
)
_SPELLED = {
    "pcie": "PCIe",
    "nvlink": "NVLink",
    "nvlinks": "NVLinks",
    "tlimit": "T-limit",
    "vbios": "VBIOS",
    "inforom": "InfoROM",
    "gpus": "GPUs",
    "pids": "PIDs",
}
_COUNTED = frozenset(
    {"gpu", "core", "multiprocessor", "nvlink", "replay", "error", "recovery", "session", "holder"}
    | {"host", "warning"}
)
_OF_DOCUMENTS = r"[,;] null [^;.]*"
_INITIALS = frozenset(
    {"gpu", "sm", "uuid", "pci", "id", "bar1", "jpeg", "ofa", "dram", "fp64", "fp32", "fp16"}
    | {"cpu", "p2p", "tx", "rx", "ecc", "gsp", "oem", "mig", "sw", "hw", "crc", "xid"}
    | {"c2c", "sram"}
)

_METRIC = r"(?s), (_\w+\(.*\))]$"
"""The end of an annotation that declares a metric, as most in a document do."""
_texts: dict[type, dict[str, str]] = {}
"""The original annotations of classes that were reduced to types."""


class Group(Enum):
    """The headings under which the metrics of a device are shown."""

    IDENTITY = "Identity"
    STATE = "State"
    MEMORY = "Memory"
    UTILIZATION = "Utilization"
    TEMPERATURE = "Temperature"
    POWER = "Power"
    CLOCKS = "Clocks"
    PCIE = "PCIe"
    NVLINK = "NVLink"
    RELIABILITY = "Reliability"
    SETTINGS = "Settings"
    MIG = "MIG"
    PROCESS = "Process"
    HOST = "Host"
    TOPOLOGY = "Topology"
    DOCUMENT = "Document"
    FINDING = "Finding"
    LEASE = "Lease"


class Field(Struct, frozen=True):
    """The declaration of one field."""

    name: str
    """The attribute, and the name in JSON, CSV and the exporter."""
    label: str
    """The display name, without the unit."""
    group: Group
    unit: Unit
    help: str
    """One sentence for people."""
    nvml: str | None
    """The NVML calls or field values that answer it, None if it is computed."""
    chart: bool
    """Whether its history is kept for charts."""
    limit: str | int | None
    """The maximum of its charts: a number, or the field that has it; None if unlimited."""
    counter: bool
    """Whether it only rises until the driver is reloaded: a counter for Prometheus."""
    smi: tuple[str, ...]
    """Its names in nvidia-smi's --query-gpu, the one of the heading first."""
    dcgm: tuple[str, ...]
    """Its names in DCGM's exporter: up to 4.8, and since 4.9 if different."""

    @property
    def help_on_screen(self) -> str:
        """The help without the part on null in documents: a screen shows a sign of its own."""
        return re.sub(_OF_DOCUMENTS, "", self.help)


def metric(
    group: Group,
    unit: Unit,
    help: str,
    *,
    nvml: str | None = None,
    label: str | None = None,
    chart: bool = False,
    limit: str | int | None = None,
    counter: bool = False,
    smi: str = "",
    dcgm: str = "",
) -> Meta:
    """Declare a field: `field: Annotated[int | None, metric(Group.POWER, Unit.MILLIWATT, ...)]`.

    The parameters are those of `Field`. A label is only given where the one derived from the
    name is wrong, and the names of nvidia-smi and of DCGM are separated by spaces.
    """
    schema: dict[str, str] = {"x-group": group.value}
    if unit is not Unit.NONE:
        schema["x-unit"] = unit.suffix
    if nvml is not None:
        schema["x-nvml"] = nvml
    declared = {
        "label": label,
        "group": group,
        "unit": unit,
        "nvml": nvml,
        "chart": chart,
        "limit": limit,
        "counter": counter,
        "smi": tuple(smi.split()),
        "dcgm": tuple(dcgm.split()),
    }
    return Meta(description=help, extra_json_schema=schema, extra=declared)


def declared_fields(kind: type[msgspec.Struct], having: str = "") -> tuple[Field, ...]:
    """Return the declaration of each field of a Struct, in order.

    Only of those with a text such as `chart=True` in their declaration, or declared elsewhere under
    a name: evaluating all takes long.
    """
    texts = {
        name: (text, base.__module__)
        for base in reversed(kind.__mro__)
        for name, text in _written(base).items()
    }
    fields = []
    for name in kind.__struct_fields__:
        text, module = texts[name]
        if having not in text and re.search(_METRIC, text):
            continue
        meta = _declared(text, module)
        declared = {**meta.extra, "label": meta.extra["label"] or label(name)}
        fields.append(Field(name=name, help=meta.description, **declared))
    return tuple(fields)


def read_types_only() -> None:
    """Leave msgspec only the types in the annotations of all documents.

    A decoder needs no more, and every screen waits for one. Most of building it is evaluating the
    declarations, so they are cut from the text of an annotation before it is evaluated.
    """
    for kind in _all_below(Struct):
        if kind.__module__.startswith("gpudash.model.") and kind not in _texts:
            written = _texts.setdefault(kind, _written(kind))
            kind.__annotations__ = {
                name: _evaluated(re.sub(_METRIC, ", None]", text), kind.__module__)
                for name, text in written.items()
            }


def read_declarations() -> None:
    """Restore the original annotations: a schema includes the declarations."""
    while _texts:
        kind, written = _texts.popitem()
        kind.__annotations__ = written


def _written(kind: type) -> dict[str, str]:
    """Return the annotations of a class's own fields as in its source."""
    return _texts.get(kind) or getattr(kind, "__annotations__", {})


def _declared(text: str, module: str) -> Any:
    if found := re.search(_METRIC, text):
        return eval(found[1], vars(sys.modules[module]))
    return next(meta for meta in _evaluated(text, module).__metadata__ if meta.extra)


@cache
def _evaluated(text: str, module: str) -> Any:
    """Return the type that a text names in a module; many fields share one."""
    return eval(text, vars(sys.modules[module]))


def _all_below(kind: type) -> Iterator[type]:
    each: type
    for each in kind.__subclasses__():
        yield each
        yield from _all_below(each)


def label(name: str) -> str:
    """Return a field's display name without the unit: `GPU utilization`."""
    for word in _UNIT_WORDS:
        name = name.removesuffix(f"_{word}")
    if name.endswith("_count"):
        name = name.removesuffix("_count")
        if name.rpartition("_")[2] in _COUNTED:
            name = f"{name[:-1]}ies" if name.endswith("ry") else f"{name}s"
    text = " ".join(_word(word) for word in name.split("_"))
    return text[:1].upper() + text[1:]


def _word(word: str) -> str:
    return word.upper() if word in _INITIALS else _SPELLED.get(word, word)
