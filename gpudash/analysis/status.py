"""The status of each device of a host, and whether a job may have it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from gpudash.analysis.activity import activity, holds_memory, is_rest, notable
from gpudash.analysis.health.context import RuleContext
from gpudash.analysis.health.levels import FINDING_RANKS, temperature_level
from gpudash.analysis.health.rules import RULES_BY_ID
from gpudash.model import state as states
from gpudash.model.device import Device
from gpudash.model.fault import unlisted_uuids
from gpudash.model.process import ProcessDevice
from gpudash.model.snapshot import Finding, FindingLevel, Snapshot
from gpudash.model.state import (
    Level,
    State,
    is_suspended_on_purpose,
    lists_processes,
    unreadable_state,
)

PROHIBITED = "prohibited"
"""The compute mode in which no program can start."""

FindingsByDevice = Mapping[str, tuple[Finding, ...]]
"""The findings about each device, by key."""


def by_device(snapshot: Snapshot, findings: Iterable[Finding]) -> FindingsByDevice:
    """Return the findings about each device by key, without devices that have none."""
    uuids: dict[str, str] = {d.uuid: d.key for d in snapshot.devices if d.uuid}
    nameless = {device.index: device.key for device in snapshot.devices if not device.uuid}
    concerned: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        keys = [uuids[uuid] for uuid in finding.uuids if uuid in uuids]
        keys += [nameless[index] for index in finding.indices if index in nameless]
        for key in keys:
            concerned[key].append(finding)
    return {key: tuple(found) for key, found in concerned.items()}


def judged(context: RuleContext, findings: FindingsByDevice) -> dict[str, State]:
    """Return the state of each device of a sample by key.

    A device unfit for jobs, or slowed down by heat, has that state even if it computes.
    """
    snapshot = context.snapshot
    divided = {device.parent_uuid for device in snapshot.devices if device.is_mig}
    leased = {lease.uuid for lease in snapshot.leases}
    holders = _holders(context)
    found: dict[str, State] = {}
    for device in snapshot.devices:
        concerned = findings_about(device, findings)
        is_divided = device.uuid in divided
        state = _out_of_order(device, concerned)
        if state is None and is_divided:
            state = states.DIVIDED
        if state is None:
            state = _activity(context, device, holders.get(device.key))
        if state in (states.FREE, states.UNKNOWN) and device.mig_mode and not device.is_mig:
            state = states.DIVIDED if is_divided else states.NO_INSTANCES
        if state is states.FREE:
            is_unfit = usable(device, concerned) is not None
            is_leased = device.uuid in leased
            state = states.UNUSABLE if is_unfit else states.LEASED if is_leased else state
        found[device.key] = state
    return found


def findings_about(device: Device, findings: FindingsByDevice) -> Sequence[Finding]:
    """Return the findings about a device, and about its GPU if it is an instance."""
    own = findings.get(device.key, ())
    return own if device.parent_uuid is None else (*own, *findings.get(device.parent_uuid, ()))


def _out_of_order(device: Device, findings: Sequence[Finding]) -> State | None:
    """Return why a device is unreadable, unfit for jobs or slowed down; None if it is not."""
    unreadable = unreadable_state(device)
    if unreadable is not None:
        return unreadable
    if any(each.level == "critical" and _status(each) is states.UNUSABLE for each in findings):
        return states.UNUSABLE
    is_hot = any(_status(each) is states.HOT for each in findings)
    return states.HOT if is_hot or temperature_level(device) == "critical" else None


def _status(finding: Finding) -> State | None:
    rule = RULES_BY_ID.get(finding.rule)
    return None if rule is None else rule.status


def _activity(context: RuleContext, device: Device, idle: Sequence[bool] | None) -> State:
    """Return a device's activity; `idle` says for each of its holders whether it is idle."""
    snapshot = context.snapshot
    is_notable = holds_memory(device)
    is_unlisted = not lists_processes(device, unlisted_uuids(snapshot.errors))
    if idle is None:
        is_idle = is_notable and is_rest(context.activity.idle_seconds(device))
    else:
        is_idle = all(idle) and not snapshot.brief
    is_held = is_notable or is_unlisted or idle is not None
    if context.is_only_started(device):
        return states.FREE
    return activity(device, is_held=is_held, is_idle=is_idle)


def _holders(context: RuleContext) -> dict[str, list[bool]]:
    """Return by device, for each process that holds it, whether it is known to be idle.

    A display with notable memory and a daemon of the driver are not known to be.
    """
    devices = {device.key: device for device in context.snapshot.devices}
    idle: dict[tuple[int, str], bool] = {}
    for process, holds in context.holds:
        waits = context.activity.of(process).on_host and not context.working(process, holds)
        for hold in holds:
            idle[process.pid, hold.device.key] = hold.unused_seconds is not None and not waits
    found: dict[str, list[bool]] = {}
    for process in context.snapshot.processes:
        for share in process.devices:
            device = devices.get(share.uuid or "")
            if device is not None and is_holder(share, device):
                is_idle = idle.get((process.pid, device.key), False)
                found.setdefault(device.key, []).append(is_idle)
    return found


def is_holder(share: ProcessDevice, device: Device) -> bool:
    """Whether a process holds a device: it computes, or draws with notable memory."""
    return share.type != "G" or notable(share.used_gpu_memory_bytes, device.memory_total_bytes)


def usable(device: Device, findings: Sequence[Finding]) -> str | None:
    """Return why no job may have a device, even while it is in use; None if one may.

    `findings` are those about it. Sleeping does not make it unusable.
    """
    unreadable = unreadable_state(device)
    if unreadable is not None:
        return None if is_suspended_on_purpose(device) else unreadable.sentence
    critical = [each.rule for each in findings if each.level == "critical"]
    if critical:
        return f"unfit for jobs: {', '.join(dict.fromkeys(critical))}"
    if device.compute_mode == PROHIBITED:
        return "in compute mode prohibited"
    if device.pending_mig_mode is not None and device.pending_mig_mode != device.mig_mode:
        return "waiting for a reset that changes its MIG mode"
    return None


def status_level(state: State, findings: Sequence[Finding]) -> Level:
    """Return how bad the status of a device is: that of its state, or of a finding about it.

    Findings about processes do not count.
    """
    about_itself = [each for each in findings if not each.pids or _status(each) is state]
    worst: FindingLevel = max(
        (each.level for each in about_itself), key=FINDING_RANKS.__getitem__, default="info"
    )
    if state.is_unreadable or state.level == "critical":
        return state.level
    if worst == "info":
        # The finding that determines the word also determines its level: one fact has one colour.
        return "ok" if any(_status(each) is state for each in about_itself) else state.level
    return worst
