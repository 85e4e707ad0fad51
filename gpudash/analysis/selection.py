"""Selection of GPUs of a host: `--gpu 0,2-3`, UUID prefixes, PCI bus ids or MIG labels."""

from __future__ import annotations

from collections.abc import Sequence, Set

from msgspec.structs import replace

from gpudash.model.device import Device, device_labels
from gpudash.model.errors import ExitStatus, GpudashError, UsageError
from gpudash.model.process import Process
from gpudash.model.snapshot import Finding, Snapshot, whole_gpus
from gpudash.model.text import clean

_MAX_DIGITS = 10


def selectors(text: str) -> tuple[str, ...]:
    """Return the words of a list such as `0,2-3,GPU-8932f937`.

    Raises UsageError for an empty one: a script's unset variable must not mean every GPU.
    """
    words = tuple(word.strip() for word in text.split(","))
    if not all(words):
        raise UsageError(f"--gpu {text!r} names no GPU: expected indices, ranges or UUID prefixes")
    return words


def selector_fields(selectors: Sequence[str]) -> frozenset[str]:
    """Return the fields of devices, beyond those always read, that selectors need."""
    return frozenset({"serial"} if any(map(_is_serial, selectors)) else ())


def select(snapshot: Snapshot, selectors: Sequence[str]) -> Snapshot:
    """Return the snapshot with only the selected GPUs, and what runs on them.

    A selector is an index, a range of them, the beginning of a UUID, a PCI bus id, a serial number
    or the label of a MIG instance (`0:1`), whose GPU is kept with it. Raises UsageError, which
    lists valid ones, if it matches no GPU, or if a UUID prefix matches several.
    """
    if not selectors:
        return snapshot
    named = {d.key: d for selector in selectors for d in _matching(snapshot, selector)}
    parents = {device.parent_uuid for device in named.values()}
    devices = tuple(
        device
        for device in snapshot.devices
        if device.key in named or device.parent_uuid in named or device.key in parents
    )
    uuids = {device.uuid for device in devices if device.uuid is not None}
    holder_pids = {pid for device in devices for pid in device.holder_pids or ()}
    return replace(
        snapshot,
        devices=devices,
        processes=tuple(_processes(snapshot, uuids)),
        holders=tuple(each for each in snapshot.holders if each.pid in holder_pids),
        topology=snapshot.topology and snapshot.topology.among(uuids),
        errors=tuple(e for e in snapshot.errors if e.uuid is None or e.uuid in uuids),
        findings=snapshot.findings and _findings(snapshot.findings, devices),
        leases=tuple(lease for lease in snapshot.leases if lease.uuid in uuids),
    )


def select_existing(snapshot: Snapshot, selectors: Sequence[str]) -> Snapshot:
    """Like `select`, but ignoring selectors that match no GPU.

    Raises GpudashError with status 6 if none matches, or there is no GPU.
    """
    existing: list[str] = []
    reason = "there is no GPU"
    for selector in selectors:
        try:
            select(snapshot, [selector])
            existing.append(selector)
        except UsageError as error:
            reason = str(error)
    if not snapshot.devices or (selectors and not existing):
        missing = GpudashError(f"no devices were found: {reason}")
        missing.exit_status = ExitStatus.NO_GPU
        raise missing
    return select(snapshot, existing)


def _matching(snapshot: Snapshot, selector: str) -> list[Device]:
    word = selector.strip().lower()
    first, dash, last = word.partition("-")
    if _is_index(first) and (_is_index(last) or not dash):
        wanted = range(int(first), int(last or first) + 1)
        found = [device for device in whole_gpus(snapshot) if device.index in wanted]
        if found and len(found) == len(wanted):
            return found
        found = []
    else:
        labels = device_labels(snapshot.devices)
        found = [d for d in snapshot.devices if _is_called(d, labels[d.key], word)]
    if len(found) == 1:
        return found
    valid = ", ".join(str(device.index) for device in whole_gpus(snapshot)) or "none"
    problem = "matches several GPUs" if found else "is no GPU of this host"
    raise UsageError(
        f"--gpu {clean(selector, 80)!r} {problem}: choose from {valid}, a UUID's beginning or a "
        "PCI bus id"
    )


def _is_index(word: str) -> bool:
    """Whether a word may be an index: int() rejects thousands of digits."""
    return word.isdecimal() and len(word) < _MAX_DIGITS


def _is_serial(word: str) -> bool:
    return word.isdecimal() and not _is_index(word)


def _is_called(device: Device, label: str, word: str) -> bool:
    """Whether a word is the device's label, serial or PCI address, or begins its UUID."""
    uuid = (device.uuid or "").lower()
    if word and (word == label or uuid.startswith(word) or uuid.startswith(f"gpu-{word}")):
        return True
    if device.is_mig:
        return False
    is_address = _address(device.pci_bus_id or "") == _address(word) != ""
    return is_address or (_is_serial(word) and word == device.serial)


def _address(bus_id: str) -> str:
    """Return a PCI address in the kernel's form, `1b:00.0` with its domain; "" for none."""
    domain, _, rest = bus_id.lower().rpartition(":")[0].rpartition(":")
    end = bus_id.lower().rpartition(":")[2]
    if not rest or "." not in end:
        return ""
    return f"{(domain or '0')[-4:].rjust(4, '0')}:{rest}:{end}"


def _processes(snapshot: Snapshot, uuids: Set[str]) -> list[Process]:
    kept = []
    for process in snapshot.processes:
        devices = tuple(device for device in process.devices if device.uuid in uuids)
        if devices:
            kept.append(replace(process, devices=devices))
    return kept


def _findings(findings: Sequence[Finding], devices: Sequence[Device]) -> tuple[Finding, ...]:
    """Return the findings about one of the devices or the whole host, unchanged."""
    uuids = {device.uuid for device in devices}
    indices = {device.index for device in devices if device.uuid is None}
    return tuple(
        finding
        for finding in findings
        if not finding.indices
        or not uuids.isdisjoint(finding.uuids)
        or not indices.isdisjoint(finding.indices)
    )
