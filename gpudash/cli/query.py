"""`gpudash --query-gpu` and the like, and `-L`, printed as nvidia-smi does."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import NoReturn

from gpudash.analysis.labels import index_ranges
from gpudash.analysis.selection import select
from gpudash.cli.oneshot import exit_status, refuse_loop, sample, with_source
from gpudash.cli.options import QUERIES, gpu_selectors, query_name
from gpudash.cli.remote import Lines, lines
from gpudash.collect.source import Source
from gpudash.feed.sampler import Sampler
from gpudash.model.errors import ExitStatus, GpudashError, UsageError
from gpudash.model.fault import Fault
from gpudash.model.snapshot import Snapshot
from gpudash.output import queries
from gpudash.output.queries import Csv
from gpudash.output.smi import listing
from gpudash.system import terminal


def run(options: argparse.Namespace) -> int:
    """Answer a query, once or with --loop repeatedly; raises UsageError."""
    asked = {name: getattr(options, query_name(name)) for name in QUERIES}
    name, fields = next((name, fields) for name, fields in asked.items() if fields is not None)
    query = queries.query(queries.QUERIES[name], fields, options.format)
    gpus = gpu_selectors(options)
    if options.loop is None:
        return with_source(
            lambda source, _: _print_once(source, query, gpus), options, wanted=lambda: query.reads
        )
    refuse_loop(options, "--once", "--timeout", "--replay")
    if "supported_clocks" in query.reads:
        raise UsageError("--loop does not go with --query-supported-clocks, which do not change")
    # GPUs of the list that are gone are skipped here; the collector would fail.
    options.gpu = None
    return _follow(lines(options), query, gpus, options.loop)


def print_details(options: argparse.Namespace) -> int:
    """Print sections about each GPU, as nvidia-smi -q does; raises UsageError."""
    from gpudash.output import smi_details

    if options.xml:
        raise UsageError("-x: there is no XML; gpudash --once --json prints all that is known")
    sections = smi_details.sections(options.display)
    gpus = gpu_selectors(options)

    def run(source: Source) -> int:
        snapshot = sample(source)
        chosen = _chosen(snapshot, gpus)
        _write(list(smi_details.details(snapshot, _keys(chosen), sections)))
        return exit_status(chosen, with_topology=False)

    return with_source(
        lambda source, _: run(source), options, wanted=lambda: smi_details.reads(sections)
    )


def list_gpus(options: argparse.Namespace) -> int:
    """Print a line for each GPU and instance, with its UUID, as nvidia-smi -L does."""
    gpus = gpu_selectors(options)
    return with_source(
        lambda source, _: _print_list(source, gpus),
        options,
        wanted=lambda: frozenset({"mig_mode"}),
    )


def _print_once(source: Source, query: Csv, gpus: Sequence[str]) -> int:
    """Print the rows below their heading; status 6 where there is no such GPU.

    Where processes are asked for, a GPU whose list is not available has a line on stderr.
    """
    snapshot = sample(source)
    chosen = _chosen(snapshot, gpus)
    heading = [query.heading()] if query.header else []
    _write(heading + list(query.rows(snapshot, _keys(chosen))))
    silent = {device.uuid for device in chosen.devices if device.state == "not-answering"}
    # A GPU that does not answer at all is reported by the error of its status.
    blind = [each for each in _unlisted(query, chosen) if not each.uuid or each.uuid not in silent]
    _warn(blind, chosen)
    status = exit_status(chosen, with_topology=False)
    if status or not blind:
        return status
    return (blind[0].code or 0) % 256 or ExitStatus.FAILURE


def _follow(found: Lines, query: Csv, gpus: Sequence[str], interval: float) -> NoReturn:
    """Print the heading once and the rows repeatedly, until a signal or a closed pipe."""
    if query.header:
        _write([query.heading()])
    reported: Sequence[Fault] = ()
    with closing(Sampler(found.argv, interval=interval, keep=1, decode=found.decode)) as sampler:
        while True:
            sampler.next_sample()
            snapshot = sampler.samples[-1]
            chosen = _chosen(snapshot, gpus)
            _write(list(query.rows(snapshot, _keys(chosen))))
            blind = _unlisted(query, chosen)
            if blind != reported:
                _warn(blind, chosen)
            reported = blind


def _print_list(source: Source, gpus: Sequence[str]) -> int:
    snapshot = _chosen(sample(source), gpus)
    _write(listing(snapshot))
    return exit_status(snapshot, with_topology=False)


def _chosen(snapshot: Snapshot, gpus: Sequence[str]) -> Snapshot:
    """Select the listed GPUs that exist; raises GpudashError if none does."""
    known: list[str] = []
    reason = "there is no GPU"
    for selector in gpus:
        try:
            select(snapshot, [selector])
            known.append(selector)
        except UsageError as error:
            reason = str(error)
    if not snapshot.devices or (gpus and not known):
        missing = GpudashError(f"no devices were found: {reason}")
        missing.exit_status = ExitStatus.NO_GPU
        raise missing
    return select(snapshot, known)


def _unlisted(query: Csv, chosen: Snapshot) -> Sequence[Fault]:
    """Return why process lists are unavailable, if asked for: no row does not mean no process.

    A query of GPUs shows in its row that one is lost; here it has no row.
    """
    if "processes" not in query.reads:
        return ()
    # The host's own faults have no number: they are about hidden processes, not missing lists.
    unlisted = [each for each in chosen.errors if each.source == "processes" and each.code]
    reported = {fault.uuid for fault in unlisted if fault.uuid is not None}
    lost = [
        device.fault
        for device in chosen.devices
        if device.fault is not None and device.state != "not-answering" and not device.is_mig
    ]
    return unlisted + [each for each in lost if each.code and each.uuid not in reported]


def _warn(faults: Sequence[Fault], snapshot: Snapshot) -> None:
    """Print a line for each reason, with the GPUs that it applies to."""
    indices: dict[str | None, int] = {device.uuid: device.index for device in snapshot.devices}
    reasons: dict[str, list[int]] = {}
    for fault in faults:
        reason = fault.message.partition(": ")[2]
        if reason and fault.uuid is not None and fault.uuid in indices:
            reasons.setdefault(reason, []).append(indices[fault.uuid])
        else:
            reasons[fault.message] = []
    lines = (
        f"gpudash: GPU {index_ranges(gpus)}: {reason}\n" if gpus else f"gpudash: {reason}\n"
        for reason, gpus in reasons.items()
    )
    with suppress(OSError):
        os.write(2, "".join(lines).encode())


def _keys(snapshot: Snapshot) -> set[str]:
    return {device.key for device in snapshot.devices}


def _write(lines: list[str]) -> None:
    terminal.write("".join(f"{line}\n" for line in lines).encode())
