"""`gpudash --once`: the state of the host, printed once."""

from __future__ import annotations

from collections.abc import Sequence

from gpudash.analysis.health.engine import Diagnosis
from gpudash.analysis.labels import index_ranges
from gpudash.analysis.selection import select
from gpudash.collect.source import Source
from gpudash.model.errors import DriverError, ExitStatus
from gpudash.model.snapshot import FindingLevel, Snapshot
from gpudash.output import FORMATS, Target
from gpudash.system import terminal as stdout


def run(
    source: Source,
    *,
    gpus: Sequence[str],
    format: str,
    ascii: bool,
    color: bool,
    fail_on: FindingLevel | None = None,
) -> int:
    """Print the state in one of FORMATS and return the exit status.

    A GPU that is out of order has a status of its own; else a finding as bad as `fail_on` gives 1.
    Raises DriverError as `exit_status` does.
    """
    snapshot = sample(source)
    if snapshot.findings is None:
        # What was recorded has been judged, by one who saw what came before.
        snapshot = Diagnosis().examine(snapshot)
    snapshot = select(snapshot, gpus)
    target = Target(stdout.is_terminal(), stdout.width(), color, ascii)
    stdout.write(FORMATS[format](snapshot, target))
    return exit_status(snapshot) or _judgement(snapshot, fail_on)


def sample(source: Source) -> Snapshot:
    """Return the host as it is; raises DriverError where the driver cannot even be opened."""
    snapshot = source.sample()
    _refuse_silence(snapshot, "nvml")
    return snapshot


def exit_status(snapshot: Snapshot, *, tells_topology: bool = True) -> int:
    """Return nvidia-smi's status for what was printed: 15 or 16 when a GPU is out of order.

    6, NVML's "not found", when there is none; NVML's number where one answers with an error.
    Raises DriverError, 10, where a GPU did not answer or, with `tells_topology`, its links could
    not be read.
    """
    if not snapshot.devices:
        return ExitStatus.NO_GPU
    silent = [device for device in snapshot.devices if device.state == "not-answering"]
    if silent:
        gpus = f"GPU {index_ranges(device.index for device in silent)}: "
        reason = silent[0].fault.message if silent[0].fault else ""
        raise _unanswered(f"{gpus}{reason}")
    if tells_topology:
        _refuse_silence(snapshot, "topology")
    states = {device.state for device in snapshot.devices}
    if "lost" in states:
        return ExitStatus.GPU_IS_LOST
    if "reset-required" in states:
        return ExitStatus.RESET_REQUIRED
    failed = [device.fault for device in snapshot.devices if device.state == "failed"]
    codes = [fault.code for fault in failed if fault is not None and fault.code]
    return codes[0] % 256 if codes else ExitStatus.FAILURE if failed else ExitStatus.OK


def _judgement(snapshot: Snapshot, fail_on: FindingLevel | None) -> int:
    """Return 1 if there is a finding of that level or a worse one."""
    failing = {"critical"} if fail_on == "critical" else {"critical", "warn"}
    is_failed = fail_on and any(finding.level in failing for finding in snapshot.findings or ())
    return ExitStatus.FAILURE if is_failed else ExitStatus.OK


def _refuse_silence(snapshot: Snapshot, source: str) -> None:
    """Raise DriverError if the driver was silent to what `source` names."""
    for fault in snapshot.errors:
        if fault.source == source and fault.code == ExitStatus.NO_ANSWER:
            raise _unanswered(fault.message)


def _unanswered(what: str) -> DriverError:
    advice = "sudo dmesg | grep -i xid may say why, --timeout waits longer"
    return DriverError(ExitStatus.NO_ANSWER, f"{what}; {advice}")
