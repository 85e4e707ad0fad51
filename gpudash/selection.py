"""Some of a host's GPUs: `--gpu 0,2` or UUID prefixes."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from gpudash.errors import UsageError
from gpudash.snapshot import Device, Process, Snapshot, Topology


def select(snapshot: Snapshot, selectors: Sequence[str]) -> Snapshot:
    """Return the snapshot with only the GPUs that a selector names, and what runs on them.

    A selector is an index, the beginning of a UUID, or a PCI bus id. Raises UsageError that names
    the valid ones when it fits no GPU, or a UUID prefix fits several.
    """
    if not selectors:
        return snapshot
    chosen = {device.key for selector in selectors for device in _matching(snapshot, selector)}
    devices = tuple(d for d in snapshot.devices if d.key in chosen or d.parent_uuid in chosen)
    uuids = {device.uuid for device in devices if device.uuid is not None}
    return replace(
        snapshot,
        devices=devices,
        processes=tuple(_processes(snapshot, uuids)),
        topology=snapshot.topology and _topology(snapshot.topology, uuids),
        errors=tuple(e for e in snapshot.errors if e.uuid is None or e.uuid in uuids),
    )


def _gpus(snapshot: Snapshot) -> list[Device]:
    return [device for device in snapshot.devices if not device.is_mig]


def _matching(snapshot: Snapshot, selector: str) -> list[Device]:
    word = selector.strip().lower()
    if word.isdecimal():
        found = [device for device in _gpus(snapshot) if device.index == int(word)]
    else:
        found = [
            device
            for device in snapshot.devices
            if _starts(device.uuid, word) or _bus(device) == word.rpartition(".")[0]
        ]
    if len(found) == 1:
        return found
    valid = ", ".join(str(device.index) for device in _gpus(snapshot)) or "none"
    problem = "fits several GPUs" if found else "is no GPU of this host"
    raise UsageError(f"--gpu {selector!r} {problem}: choose from {valid}, or a UUID's beginning")


def _starts(uuid: str | None, word: str) -> bool:
    lower = (uuid or "").lower()
    return word != "" and (lower.startswith(word) or lower.removeprefix("gpu-").startswith(word))


def _bus(device: Device) -> str | None:
    return None if device.is_mig or not device.pci_bus_id else device.pci_bus_id[:-2].lower()


def _processes(snapshot: Snapshot, uuids: set[str]) -> list[Process]:
    kept = []
    for process in snapshot.processes:
        devices = tuple(device for device in process.devices if device.uuid in uuids)
        if devices:
            kept.append(replace(process, devices=devices))
    return kept


def _topology(topology: Topology, uuids: set[str]) -> Topology:
    kept = [place for place, uuid in enumerate(topology.uuids) if uuid in uuids]
    return Topology(
        uuids=tuple(topology.uuids[i] for i in kept),
        indices=tuple(topology.indices[i] for i in kept),
        links=tuple(tuple(topology.links[i][j] for j in kept) for i in kept),
        p2p_read=tuple(tuple(topology.p2p_read[i][j] for j in kept) for i in kept),
        p2p_write=tuple(tuple(topology.p2p_write[i][j] for j in kept) for i in kept),
        p2p_atomics=tuple(tuple(topology.p2p_atomics[i][j] for j in kept) for i in kept),
        cpu_affinity=tuple(topology.cpu_affinity[i] for i in kept),
        numa_affinity=tuple(topology.numa_affinity[i] for i in kept),
    )
