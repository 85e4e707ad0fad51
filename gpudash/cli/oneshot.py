"""Reading the driver once, in a child that is abandoned if the driver hangs.

The child imports what it needs, so that the forked process stays small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from typing import TYPE_CHECKING, NoReturn

from gpudash.cli.options import (
    DEFAULT_TIMEOUT,
    acknowledged,
    check_recording,
    gpu_selectors,
    has_color,
    is_ascii,
    is_recorded,
    judgement,
    open_recording,
    refuse,
)
from gpudash.model.errors import DriverError, ExitStatus, GpudashError, UsageError
from gpudash.system import terminal

if TYPE_CHECKING:
    import argparse

    from gpudash.analysis.process_choice import ProcessChoice
    from gpudash.collect.source import HostSource
    from gpudash.model.device import Device
    from gpudash.model.snapshot import Snapshot

    Command = Callable[[HostSource, argparse.Namespace], int]
    """Prints something about a source, and returns the exit status."""

_WITHOUT_PROCESSES = ("csv", "prometheus")
_OF_SOME_METRICS = ("table", "gpustat")


def run(options: argparse.Namespace) -> int:
    """Print the state of the host once or with --loop repeatedly, in one of FORMATS."""
    if options.replay is not None and _is_of_many(options):
        from gpudash.cli import fleet

        return fleet.print_once(options)
    name, choice = _format(options), _choice(options)
    if options.loop is None:
        return with_source(
            lambda source, options: _print_state(source, options, choice),
            options,
            wanted=None if name in _OF_SOME_METRICS else everything,
            whole=name == "json",
        )
    refuse(options, ("timeout", "replay", "at", "fail_on"), "--loop")
    return _follow(options, choice)


def everything() -> set[str]:
    """Return all fields of devices in documents, but those that only their own command prints."""
    from gpudash.model.details import ON_REQUEST
    from gpudash.model.device import Device

    return {*Device.__struct_fields__, "processes"} - ON_REQUEST


def _is_of_many(options: argparse.Namespace) -> bool:
    """Whether a recording is of many hosts; raises UsageError for options that are about one."""
    from gpudash.feed.recording.reader import Recording

    check_recording(options)
    if not Recording(options.replay).first.is_fleet:
        return False
    of_one_host = ("gpu", "filter", "sort", "user", "pid", "loop")
    refuse(options, of_one_host, "a recording of many hosts")
    return True


def _follow(options: argparse.Namespace, choice: ProcessChoice | None) -> NoReturn:
    """Print each sample of a collector, until a signal or a closed pipe."""
    from contextlib import closing

    from gpudash.cli.remote import lines
    from gpudash.feed.sampler import Sampler

    (argv, decode, _), gap = lines(options), b""
    with closing(Sampler(argv, interval=options.loop, keep=1, decode=decode)) as sampler:
        while True:
            sampler.next_sample()
            terminal.write(gap)
            _write(sampler.samples[-1], options, choice)
            gap = b"\n" if _format(options) == "table" else b""


def with_source(
    command: Command,
    options: argparse.Namespace,
    *,
    wanted: Callable[[], Set[str]] | None = None,
    whole: bool = False,
) -> int:
    """Run a command on this host, a simulated one or a recording; raises UsageError.

    `wanted` returns the fields of devices that it needs, beside those by which GPUs are chosen;
    that and `whole` are as for `open_once`.
    """
    check_recording(options)
    from gpudash.system.imports import import_msgspec

    def run(alive: Callable[[], None]) -> int:
        import_msgspec()
        return command(_source(options, alive, wanted, whole), options)

    try:
        if options.host or options.demo is not None or is_recorded(options):
            return run(lambda: None)
        from gpudash.system import fork

        return fork.run_isolated(run, options.timeout or DEFAULT_TIMEOUT)
    except GpudashError as error:
        # A wrong option or a recording says nothing about a host.
        is_down = not is_recorded(options) and error.exit_status != ExitStatus.USAGE
        if is_down and options.format == "prometheus" and not terminal.has_written():
            from gpudash.output import prometheus

            terminal.write_text(prometheus.down())
        raise


def _source(
    options: argparse.Namespace,
    alive: Callable[[], None],
    wanted: Callable[[], Set[str]] | None,
    whole: bool,
) -> HostSource:
    if is_recorded(options):
        from gpudash.feed.recording.samples import open_recorded

        source = open_recorded(open_recording(options.replay), options.at)
        if source.note:
            terminal.write_message(f"gpudash: {source.note}\n")
        return source
    if options.host:
        from gpudash.cli.remote import RemoteSource

        return RemoteSource(options, options.host[0])
    from gpudash.analysis.selection import selector_fields
    from gpudash.collect.local import open_once

    of_gpus = selector_fields(gpu_selectors(options))
    return open_once(
        options.demo,
        options.timeout or DEFAULT_TIMEOUT,
        alive,
        show_secrets=options.show_secrets,
        pcie_throughput=options.pcie_throughput,
        whole=whole,
        wanted=None if wanted is None else wanted() | of_gpus,
    )


def _print_state(
    source: HostSource, options: argparse.Namespace, choice: ProcessChoice | None
) -> int:
    """Print the state; a GPU out of order takes precedence over --fail-on for the exit status."""
    from gpudash.analysis.health.engine import Diagnosis
    from gpudash.analysis.health.findings import acknowledged_gpus
    from gpudash.analysis.selection import select

    gpus = gpu_selectors(options)
    snapshot = sample(source)
    if snapshot.findings is None:
        # A recorded sample has findings that take earlier samples into account.
        snapshot = Diagnosis(acknowledged(options)).examine(snapshot)
    snapshot = select(snapshot, gpus)
    _write(snapshot, options, choice)
    known = frozenset[int]() if options.fail_on is None else acknowledged_gpus(snapshot)
    status = exit_status(snapshot, acknowledged=known)
    return status or judgement(snapshot.findings or (), options.fail_on)


def _write(snapshot: Snapshot, options: argparse.Namespace, choice: ProcessChoice | None) -> None:
    """Print a snapshot with the chosen processes; totals of a table are still of all."""
    from gpudash.output import FORMATS, Destination

    name, rows = _format(options), choice.rows(snapshot) if choice else None
    if rows is not None and name != "table":
        from msgspec.structs import replace

        snapshot = replace(snapshot, processes=tuple(row.process for row in rows))
    target = Destination(
        terminal.is_terminal(), terminal.width(), has_color(), is_ascii(options), rows
    )
    terminal.write(FORMATS[name](snapshot, target))


def _choice(options: argparse.Namespace) -> ProcessChoice | None:
    """Return which processes are printed, None for all; raises UsageError."""
    wanted = {name: getattr(options, name) for name in ("filter", "sort", "user", "pid")}
    given = [name for name, text in wanted.items() if text is not None]
    if not given:
        return None
    if _format(options) in _WITHOUT_PROCESSES:
        raise UsageError(f"--{given[0]} does not go with {_format(options)}, which has GPUs alone")
    from gpudash.analysis.process_choice import choose

    return choose(
        filter=options.filter,
        sort=options.sort,
        users=options.user,
        pids=options.pid,
        has_past=options.loop is not None or is_recorded(options),
    )


def _format(options: argparse.Namespace) -> str:
    """Return the name of the format; raises UsageError for an unknown one."""
    from gpudash.output import FORMATS

    if options.format is None:
        return "gpustat" if options.json == "gpustat" else "json" if options.json else "table"
    if options.format not in FORMATS:
        raise UsageError(f"--format {options.format!r}: choose from {', '.join(FORMATS)}")
    return str(options.format)


def sample(source: HostSource) -> Snapshot:
    """Return the host's state; raises DriverError if the driver cannot even be opened."""
    snapshot = source.sample()
    refuse_silence(snapshot, "nvml")
    return snapshot


def chosen(snapshot: Snapshot, options: argparse.Namespace) -> Snapshot:
    """Return a snapshot with the existing GPUs of -i; raises GpudashError if there are none.

    `options.choose` overrides this: nvidia-smi fails if one is lost.
    """
    from gpudash.analysis.selection import select_existing

    choose = options.choose or select_existing
    found: Snapshot = choose(snapshot, gpu_selectors(options))
    return found


def refuse_silence(snapshot: Snapshot, source: str) -> None:
    """Raise DriverError if the driver did not answer about `source`."""
    for fault in snapshot.errors:
        if fault.source == source and fault.code == ExitStatus.NO_ANSWER:
            raise _unanswered(fault.message)


def refuse_silent_gpus(devices: Iterable[Device]) -> None:
    """Raise DriverError, 10, if a GPU did not answer."""
    from gpudash.analysis.labels import index_ranges

    silent = [device for device in devices if device.state == "not-answering"]
    if silent:
        gpus = f"GPU {index_ranges(device.index for device in silent)}: "
        reason = silent[0].fault.message if silent[0].fault else ""
        raise _unanswered(f"{gpus}{reason}")


def exit_status(
    snapshot: Snapshot, *, with_topology: bool = True, acknowledged: Set[int] = frozenset()
) -> int:
    """Return nvidia-smi's status for the output: 15 or 16 if a GPU is out of order.

    6, NVML's "not found", if there is none; NVML's number if one answers with an error. Raises
    DriverError, 10, if a GPU did not answer or, with `with_topology`, its links could not be read.
    GPUs whose indices are `acknowledged` may be out of order.
    """
    if not snapshot.devices:
        return ExitStatus.NO_GPU
    devices = [each for each in snapshot.devices if each.is_mig or each.index not in acknowledged]
    refuse_silent_gpus(devices)
    if with_topology:
        refuse_silence(snapshot, "topology")
    states = {device.state for device in devices}
    if "lost" in states:
        return ExitStatus.GPU_IS_LOST
    if "reset-required" in states:
        return ExitStatus.RESET_REQUIRED
    failed = [device.fault for device in devices if device.state == "failed"]
    codes = [fault.code for fault in failed if fault is not None and fault.code]
    return codes[0] % 256 if codes else ExitStatus.FAILURE if failed else ExitStatus.OK


def write_json(document: object) -> None:
    """Write a document as one line, indented on a terminal; raises OutputError."""
    import msgspec

    line = msgspec.json.encode(document)
    terminal.write((msgspec.json.format(line) if terminal.is_terminal() else line) + b"\n")


def _unanswered(what: str) -> DriverError:
    advice = "sudo dmesg | grep -i xid may say why, --timeout waits longer"
    return DriverError(ExitStatus.NO_ANSWER, f"{what}; {advice}")
