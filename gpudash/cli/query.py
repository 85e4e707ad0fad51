"""`gpudash --query-gpu` and the like, and `-L`, printed as nvidia-smi does."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence, Set
from contextlib import closing, suppress
from typing import NoReturn

from gpudash.analysis.labels import index_ranges
from gpudash.analysis.selection import select_existing
from gpudash.cli.oneshot import exit_status, sample, with_source
from gpudash.cli.options import QUERIES, gpu_selectors, query_name, refuse
from gpudash.cli.remote import lines
from gpudash.collect.source import HostSource
from gpudash.feed.sampler import Sampler
from gpudash.model.errors import ExitStatus, UsageError
from gpudash.model.fault import Fault
from gpudash.model.snapshot import Snapshot
from gpudash.output import queries
from gpudash.output.queries import Csv
from gpudash.output.smi_table import listing
from gpudash.system import terminal

Lines = Callable[[Snapshot, Snapshot], Sequence[str]]
"""Returns lines for a snapshot, and for the same with only the chosen GPUs."""


def run(options: argparse.Namespace) -> int:
    """Answer a query, once or with --loop repeatedly; raises UsageError."""
    asked = {name: getattr(options, query_name(name)) for name in QUERIES}
    name, fields = next((name, fields) for name, fields in asked.items() if fields is not None)
    query = queries.query(queries.QUERIES[name], fields, options.format)
    if not query.fields:
        raise UsageError("a query needs names, as in --query-gpu=index,name,memory.used")
    gpus = gpu_selectors(options)
    if options.loop is not None:
        return _follow(options, query)
    return with_source(
        lambda source, _: _print_once(source, query, gpus),
        options,
        wanted=lambda: query.reads,
    )


def print_details(options: argparse.Namespace) -> int:
    """Print the details of each GPU, once or with --loop repeatedly; raises UsageError.

    The layout is that of nvidia-smi -q, or with -x its XML.
    """
    if options.xml and options.display is not None:
        raise UsageError("-d does not go with -x, which prints all sections")
    reads, lines = details(options.display, xml=options.xml, unit=options.unit, dtd=options.dtd)
    gpus = gpu_selectors(options)

    def show(source: HostSource, _options: argparse.Namespace) -> int:
        snapshot = sample(source)
        chosen = select_existing(snapshot, gpus)
        terminal.write_lines(lines(snapshot, chosen))
        return exit_status(chosen, with_topology=False)

    if options.loop is not None:
        refuse(options, ("once", "timeout", "replay", "at"), "--loop")
    while True:
        began = time.monotonic()
        # A new source each time, as a stream omits much of this.
        status = with_source(show, options, wanted=lambda: reads)
        if options.loop is None:
            return status
        time.sleep(max(0.0, began + options.loop - time.monotonic()))


def details(display: str | None, *, xml: bool, unit: bool, dtd: bool) -> tuple[Set[str], Lines]:
    """Return the fields and the lines of a form of -q; raises UsageError for a section."""
    from gpudash.output import smi_details, smi_xml

    sections = smi_details.sections(display)

    def lines(snapshot: Snapshot, chosen: Snapshot) -> Sequence[str]:
        if xml and unit:
            return smi_xml.unit_document(snapshot, with_dtd=dtd)
        if unit:
            return smi_details.unit_details(snapshot)
        if xml:
            return smi_xml.document(snapshot, keys(chosen), with_dtd=dtd)
        return smi_details.details(snapshot, keys(chosen), sections)

    if unit:
        return frozenset(), lines
    return smi_xml.reads() if xml else smi_details.reads(sections), lines


def list_gpus(options: argparse.Namespace) -> int:
    """Print a line for each GPU and instance, with its UUID, as nvidia-smi -L does."""
    gpus = gpu_selectors(options)
    return with_source(
        lambda source, _: _print_list(source, gpus),
        options,
        wanted=lambda: {"mig_mode"},
    )


def _print_once(source: HostSource, query: Csv, gpus: Sequence[str]) -> int:
    """Print the rows with their heading; return status 6 if there is no such GPU.

    If processes are requested, a GPU without a list of them has a line on stderr.
    """
    snapshot = sample(source)
    chosen = select_existing(snapshot, gpus)
    heading = [query.heading()] if query.header else []
    terminal.write_lines(heading + list(query.rows(snapshot, keys(chosen))))
    silent = {device.uuid for device in chosen.devices if device.state == "not-answering"}
    # A GPU that does not answer at all is reported by the error of its status.
    blind = [each for each in _unlisted(query, chosen) if not each.uuid or each.uuid not in silent]
    _warn(blind, chosen)
    status = exit_status(chosen, with_topology=False)
    if status or not blind:
        return status
    return (blind[0].code or 0) % 256 or ExitStatus.FAILURE


def _follow(options: argparse.Namespace, query: Csv) -> NoReturn:
    """Print the rows of each sample below one heading, until a signal or a closed pipe.

    A process list that is not available has a line on stderr. Raises UsageError.
    """
    refuse(options, ("once", "timeout", "replay", "at"), "--loop")
    if "supported_clocks" in query.reads:
        raise UsageError("--loop does not go with supported clocks, which do not change")
    gpus = gpu_selectors(options)
    # Missing GPUs of the list are skipped here; the collector would fail.
    options.gpu = None
    found = lines(options)
    heading = [query.heading()] if query.header else []
    reported: Sequence[Fault] = ()
    sampler = Sampler(found.argv, interval=options.loop, keep=1, decode=found.decode)
    with closing(sampler):
        while True:
            sampler.next_sample()
            snapshot = sampler.samples[-1]
            chosen = select_existing(snapshot, gpus)
            terminal.write_lines([*heading, *query.rows(snapshot, keys(chosen))])
            heading, unlisted = [], _unlisted(query, chosen)
            if unlisted != reported:
                _warn(unlisted, chosen)
            reported = unlisted


def _print_list(source: HostSource, gpus: Sequence[str]) -> int:
    snapshot = select_existing(sample(source), gpus)
    terminal.write_lines(listing(snapshot))
    return exit_status(snapshot, with_topology=False)


def _unlisted(query: Csv, chosen: Snapshot) -> Sequence[Fault]:
    """Return why requested process lists are unavailable: no row does not mean no process.

    A query of GPUs shows a lost one in its row; here, it has none.
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
    """Print a line for each reason, with its GPUs."""
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


def keys(snapshot: Snapshot) -> set[str]:
    """Return the keys of the devices."""
    return {device.key for device in snapshot.devices}
