"""A query as nvidia-smi prints it: a heading with units, a row per GPU or process."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct

from gpudash.model.device import Device
from gpudash.model.errors import UsageError
from gpudash.model.process import Process
from gpudash.model.snapshot import Snapshot
from gpudash.model.state import state_words
from gpudash.model.text import clean
from gpudash.output.smi.fields import APP_FIELDS, GPU_FIELDS, Field, Row, Use, find

_MODIFIERS = ("noheader", "nounits")
_COMMA = r"\x2c"
"""What stands for one within a text, where it would begin another cell."""
_DEAD = {
    "lost": "[GPU is lost]",
    "reset-required": "[GPU requires reset]",
    "failed": "[Unknown Error]",
    "not-answering": "[Timeout]",
}
_KNOWN_WITHOUT_THE_DRIVER = frozenset({"timestamp", "driver_version", "count", "index"})


class Csv(Struct, frozen=True, kw_only=True):
    """A query of GPUs or of compute processes, by the names that were asked for."""

    gpu_fields: tuple[Field[Device], ...] = ()
    app_fields: tuple[Field[Use], ...] = ()
    header: bool = True
    units: bool = True

    def heading(self) -> str:
        """Return the names in full, with the units of their columns."""
        pairs = [(each.name, each.unit) for each in self.gpu_fields]
        pairs += [(each.name, each.unit) for each in self.app_fields]
        return ", ".join(f"{name} [{unit}]" if unit else name for name, unit in pairs)

    def rows(self, snapshot: Snapshot, chosen: Collection[str] | None = None) -> Iterator[str]:
        """Yield a row per GPU, or one per process and GPU; only of those with the `chosen` keys."""
        gpus = [
            device
            for device in snapshot.devices
            if not device.is_mig and (chosen is None or device.key in chosen)
        ]
        for device in gpus if self.gpu_fields else ():
            yield ", ".join(self._cell(each, snapshot, device) for each in self.gpu_fields)
        for use in _uses(gpus, snapshot.processes) if self.app_fields else ():
            yield ", ".join(self._text(each, each.text(snapshot, use)) for each in self.app_fields)

    def _cell(self, field: Field[Device], snapshot: Snapshot, device: Device) -> str:
        text = field.text(snapshot, device)
        if device.state != "ok" and field.name not in _KNOWN_WITHOUT_THE_DRIVER:
            return (
                self._text(field, text)
                if text is not None
                else _DEAD.get(device.state, field.absent)
            )
        return self._text(field, text)

    def _text(self, field: Field[Row], text: str | None) -> str:
        """Return a cell; nvidia-smi lets what is called `x, 4242` be one of PID 4242."""
        if text is None:
            return field.absent
        text = text.replace(",", _COMMA)
        return f"{text} {field.unit}" if field.unit and self.units else text


def parse_format(text: str) -> tuple[bool, bool]:
    """Return whether `csv[,noheader][,nounits]` wants a heading, and units; raises UsageError."""
    modifiers = text.split(",")
    strange = [each for each in modifiers if each not in _MODIFIERS and each != "csv"]
    if "csv" not in modifiers or strange:
        wrong = strange[0] if strange else text
        raise UsageError(f"--format {wrong!r} of a query: choose csv[,noheader][,nounits]")
    return "noheader" not in modifiers, "nounits" not in modifiers


def query(gpu: str | None, apps: str | None, format: str | None) -> Csv:
    """Return the query that the options ask for; raises UsageError that suggests names."""
    if gpu is not None and apps is not None:
        raise UsageError("choose one of --query-gpu and --query-compute-apps")
    if format is None:
        raise UsageError("a query needs --format=csv[,noheader][,nounits]")
    header, units = parse_format(format)
    if gpu is not None:
        return Csv(gpu_fields=_fields(gpu, GPU_FIELDS), header=header, units=units)
    return Csv(app_fields=_fields(apps or "", APP_FIELDS), header=header, units=units)


def _fields(names: str, known: Mapping[str, Field[Row]]) -> tuple[Field[Row], ...]:
    asked = [name.strip() for name in names.split(",") if name.strip()]
    if not asked:
        raise UsageError("a query needs names, as in --query-gpu=index,name,memory.used")
    return tuple(find(name, known) for name in asked)


def _uses(gpus: Sequence[Device], processes: Sequence[Process]) -> Iterator[Use]:
    """Yield compute processes in the order of the GPUs."""
    for device in gpus:
        for process in processes:
            for share in process.devices:
                if share.index == device.index and "C" in share.type:
                    yield Use(process, share, device)


def listing(snapshot: Snapshot) -> list[str]:
    """Return a line per GPU with its UUID, below it one per MIG instance."""
    return list(_lines(snapshot))


def _lines(snapshot: Snapshot) -> Iterator[str]:
    instance = 0
    for device in snapshot.devices:
        if device.is_mig:
            profile = (device.name or "").rpartition("MIG ")[2]
            uuid = clean(device.uuid or "")
            yield f"  MIG {clean(profile):<11} Device {instance:2}: (UUID: {uuid})"
            instance += 1
            continue
        instance = 0
        yield _gpu(device)


def _gpu(device: Device) -> str:
    if device.state != "ok" and device.name is None:
        reason = state_words(device).told if device.fault is None else device.fault.message
        return f"GPU {device.index}: ({reason})"
    return f"GPU {device.index}: {clean(device.name or '')} (UUID: {clean(device.uuid or '')})"
