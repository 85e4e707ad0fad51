"""nvidia-smi's command line: its options, messages, channels and exit statuses.

gpudash uses it when called as nvidia-smi, or as `gpudash smi`. Options that change a GPU or are
unknown here are left to the next nvidia-smi in PATH.
"""

from __future__ import annotations

import argparse
import gc
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from gpudash.cli import next_smi, smi_verbs
from gpudash.cli.oneshot import refuse_silent_gpus, sample, with_source
from gpudash.cli.options import DEFAULT_TIMEOUT, QUERIES
from gpudash.cli.signals import exit_on_signals
from gpudash.cli.smi_options import (
    FAILED,
    HELP,
    VERBS_ELSEWHERE,
    Request,
    SmiError,
    as_there,
    chosen_gpus,
    gpu_words,
    missing,
    no_handle,
    parse,
)
from gpudash.model.errors import ExitStatus, GpudashError, OutputError, UsageError
from gpudash.system import terminal
from gpudash.system.files import read_start

if TYPE_CHECKING:
    from gpudash.collect.source import HostSource
    from gpudash.model.snapshot import Host, Snapshot

_NOT_SUPPORTED = 3
_DRIVER_PARAMETERS = "/proc/driver/nvidia/params"
_LONG = {"-u": "-u/--unit", "-x": "-x/--xml-format", "-d": "-d/--display"}
_COMBINATION = "Invalid combination of input arguments"


class SmiReport(NamedTuple):
    """The printed form of a sample."""

    reads: Set[str]
    """The fields of devices, and `processes`, that it needs."""
    lines: Callable[[Snapshot, Snapshot], Iterable[str]]
    """Returns lines for a snapshot, and for the same with only the chosen GPUs."""
    is_of_gpus: bool = True
    """Whether it fails if one of them is lost."""


class Command(NamedTuple):
    """A command selected by an option: its other options, the error for others, its function."""

    run: Callable[[Request], int]
    takes: frozenset[str]
    status: int = ExitStatus.USAGE
    refusal: str = f"is not valid for this command. {HELP}"


def run(words: Sequence[str], demo: str | None = None) -> int:
    """Do what nvidia-smi does with these words, and return its status."""
    try:
        return _run(list(words), demo)
    except GpudashError as error:
        # Help needs no driver.
        is_help = {"-h", "--help"} & {*words}
        status, text = (None if is_help else _without_driver(error, demo)) or as_there(error)
    terminal.redirect_back()
    terminal.write_text(text)
    return status


def _run(words: list[str], demo: str | None) -> int:
    if words and words[0] in smi_verbs.NAMES:
        live = argparse.Namespace(**_LIVE, demo=demo)
        return smi_verbs.run(words, live, partial(_elsewhere, words))
    if words and words[0] in VERBS_ELSEWHERE.split():
        raise _elsewhere(words, words[0])
    request = Request(words, parse(words), demo)
    command = _command(request)
    for each in request.given:
        if each.option not in command.takes:
            if each.sets or not each.option:
                next_smi.become(words)
            raise SmiError(command.status, f"ERROR: Option {each.word} {command.refusal}\n")
        if each.lacks_value:
            raise missing(each)
    return command.run(request)


def _command(request: Request) -> Command:
    """Return the command that the options select; raises SmiError for a wrong combination."""
    names = [each.option for each in request.given]
    queries = sorted({name for name in names if name.startswith("--query-")})
    alone = [name for name in names if name in ("-L", "-B")]
    setting = next((each for each in request.given if each.sets), None)
    chosen = next((name for name in names if name.startswith("--help-query-")), "")
    if "-h" in names or "--version" in names:
        chosen = "-h" if "-h" in names else "--version"
    elif alone:
        if len(alone) > 1:
            raise SmiError(
                ExitStatus.USAGE, f"ERROR: Only one command can be run at a time. {HELP}\n"
            )
        chosen = alone[0]
    elif setting is not None:
        raise missing(setting) if setting.lacks_value else _elsewhere(request.words, setting.word)
    elif names.count("-i") > 1:
        chosen = "-i -i"
    elif len(queries) > 1:
        raise SmiError(ExitStatus.USAGE, "Only one --query-* switch can be used at a time.")
    elif queries:
        chosen = queries[0]
    elif "--dtd" in names and not request.has("-q", "-a"):
        chosen = "--dtd"
    if chosen and chosen not in _COMMANDS:
        raise _elsewhere(request.words, chosen)
    return _COMMANDS[chosen]


def _elsewhere(words: Sequence[str], what: str) -> SmiError:
    """Become the next nvidia-smi; return the error if there is none."""
    next_smi.become(words)
    text = f"{what}: gpudash leaves that to NVIDIA's own nvidia-smi, and PATH has none"
    return SmiError(_NOT_SUPPORTED, text)


def _list(request: Request) -> int:
    """Print a line for each GPU and instance."""

    def run(source: HostSource, _: object) -> int:
        from gpudash.output.smi_table import listing

        snapshot, status = sample(source), int(ExitStatus.OK)
        for device, line in zip(snapshot.devices, listing(snapshot), strict=True):
            text, error = f"{line}\n", no_handle(device, f"gpu {device.index}")
            if error is not None:
                status, text = as_there(error)
            terminal.write_text(text)
        if not snapshot.devices:
            terminal.write(b"No devices found.\n")
        refuse_silent_gpus(snapshot.devices)
        return status

    options = argparse.Namespace(**_LIVE, demo=request.demo)
    return with_source(run, options, wanted=lambda: {"mig_mode"})


def _choose(request: Request) -> int:
    """Refuse -i given twice, which only settings accept, unless a GPU is missing."""

    def lines(_: Snapshot, __: Snapshot) -> Iterable[str]:
        raise SmiError(FAILED, "Input combination for device modification is not valid.\n")

    return _print(request, lambda: SmiReport(frozenset(), lines))


def _help(request: Request) -> int:
    """Print the options, even without a driver."""
    from gpudash import __version__
    from gpudash.model.snapshot import EMPTY
    from gpudash.output import smi_help

    def text(host: Host) -> str:
        return smi_help.usage(host.driver_version or _library_version() or __version__)

    return _about(request, text, EMPTY.host)


def _library_version() -> str | None:
    """Return the version of NVML's file, which is nvidia-smi's too, even without a driver."""
    from ctypes import CDLL

    from gpudash.collect.nvml.codes import library_version

    with suppress(OSError):
        CDLL("libnvidia-ml.so.1")
    return library_version()


def _help_query(name: str, request: Request) -> int:
    from gpudash.output import smi_help

    terminal.write_text(smi_help.query_fields(name))
    return ExitStatus.OK


def _versions(request: Request) -> int:
    from gpudash.output import smi_help

    return _about(request, smi_help.versions, None)


def _excluded(request: Request) -> int:
    """Print the GPUs that the driver's settings exclude."""
    text = read_start(_DRIVER_PARAMETERS, 1 << 16) or b""
    if re.search(rb'^ExcludedGpus: "[^"]', text, re.MULTILINE):
        raise _elsewhere(request.words, "-B")
    return _about(request, lambda _: "No excluded devices found.\n", None)


def _about(request: Request, write: Callable[[Host], str], otherwise: Host | None) -> int:
    """Print text about the driver, or `otherwise` if there is none."""

    def run(source: HostSource, _: object) -> int:
        terminal.write_text(write(sample(source).host))
        return ExitStatus.OK

    try:
        return with_source(run, argparse.Namespace(**_LIVE, demo=request.demo), wanted=set)
    except GpudashError:
        if otherwise is None:
            raise
    terminal.write_text(write(otherwise))
    return ExitStatus.OK


def _query(name: str, request: Request) -> int:
    text, form = request.value(f"--query-{name}") or "", request.value("--format")
    if form is None:
        raise SmiError(ExitStatus.USAGE, f'"--format=" switch is missing. {HELP}\n')

    def report() -> SmiReport:
        from gpudash.cli.query import keys
        from gpudash.output import queries

        kind = queries.QUERIES[name]
        for word in map(str.strip, text.split(",")):
            if word and word not in kind.fields:
                raise SmiError(ExitStatus.USAGE, f'Field "{word}" is not a valid field to query.\n')
        try:
            query = queries.query(kind, text, form)
        except UsageError:
            is_known = {"noheader", "nounits", ""}.issuperset(form.split(","))
            what = "--format=csv is mandatory" if is_known else "is not recognized"
            raise SmiError(ExitStatus.USAGE, f"Format modifier {what}.") from None
        heading = [query.heading()] if query.header else []

        def rows(snapshot: Snapshot, chosen: Snapshot) -> Iterable[str]:
            lines = [*heading, *query.rows(snapshot, keys(chosen))]
            heading.clear()
            return lines

        return SmiReport(query.reads, rows)

    return _print(request, report)


def _show(request: Request) -> int:
    """Print the table, or with -q the details."""
    is_query = request.has("-q", "-a")
    for option, about in (("-u", "a unit"), ("-x", "an XML"), ("-d", "a filtered")):
        if request.has(option) and not is_query:
            pair = f"-q/--query and {_LONG[option]}"
            what = f"Specify {pair} to run {about} query."
            raise SmiError(ExitStatus.USAGE, f"{_COMBINATION}. {what}  {HELP}\n")
    for option in ("-x", "-u"):
        if request.has("-d") and request.has(option):
            what = f"--display/-d flags can not be combined with {_LONG[option]} flags."
            raise SmiError(ExitStatus.USAGE, f"{_COMBINATION}: {what}")
    if request.has("--dtd") and not request.has("-x"):
        what = "Specify -x/--xml-format with the -q/--query and --dtd flags to embed DTD."
        raise SmiError(ExitStatus.USAGE, f"{_COMBINATION}: {what}")
    make = partial(_details, request) if is_query else _table
    return _print(request, make)


def _table() -> SmiReport:
    """Return the report without options."""
    from gpudash.output import smi_table

    return SmiReport(smi_table.READS, lambda _, chosen: smi_table.table(chosen))


def _details(request: Request) -> SmiReport:
    """Return the report of -q: its sections, with -x the XML, with -u about units."""
    from gpudash.cli.query import details

    xml, unit, dtd = (request.has(option) for option in ("-x", "-u", "--dtd"))
    try:
        reads, lines = details(request.value("-d"), xml=xml, unit=unit, dtd=dtd)
    except UsageError:
        raise SmiError(ExitStatus.USAGE, "Failed to parse --display/-d flags") from None
    return SmiReport(reads, lines, is_of_gpus=not unit)


def _without_driver(error: GpudashError, demo: str | None) -> tuple[int, str] | None:
    """Return the error of an unusable driver, which precedes that of wrong words."""
    if error.exit_status not in (ExitStatus.OK, ExitStatus.USAGE, FAILED):
        return None
    live = argparse.Namespace(**_LIVE, demo=demo)
    try:
        with_source(lambda source, _: len(sample(source).errors), live, wanted=set)
    except GpudashError as without:
        return as_there(without)
    return None


def _print(request: Request, make: Callable[[], SmiReport]) -> int:
    """Print a report once, or with -l and -lms until a signal; return the status."""
    seconds = _interval(request)
    gpus, log = gpu_words(request.value("-i", "-g")), request.value("-f")
    made: list[SmiReport] = []

    def wanted() -> Set[str]:
        made.append(make())
        from gpudash.analysis.selection import selector_fields

        return made[0].reads | selector_fields(gpus)

    if seconds is not None:
        _repeat(request, seconds, wanted(), made[0])
    if log is not None:
        _redirect(log)

    def once(source: HostSource, _: object) -> int:
        _print_sample(made[0], source, gpus)
        return ExitStatus.OK

    options = argparse.Namespace(**_LIVE, demo=request.demo)
    status = with_source(once, options, wanted=wanted)
    terminal.empty_file()
    return status


def _repeat(request: Request, seconds: float, reads: Set[str], report: SmiReport) -> NoReturn:
    """Print a report again and again, until a signal."""
    from gpudash.collect.local import open_once

    exit_on_signals(ExitStatus.OK)
    gpus, log = gpu_words(request.value("-i", "-g")), request.value("-f")
    before, due = None, time.monotonic()
    gc.freeze()
    gc.enable()
    while True:
        # A new source each time: a lasting one rarely rereads what seldom changes.
        source = open_once(request.demo, DEFAULT_TIMEOUT, wanted=reads, whole=False)
        _print_sample(report, source, gpus, log)
        if before is not None:
            before.close()
        log = None
        before, due = source, max(due + seconds, time.monotonic())
        terminal.wait(due - time.monotonic())


_LIVE: Mapping[str, Any] = dict.fromkeys(("host", "replay", "at", "timeout", "format", "gpu")) | {
    "show_secrets": False,
    "pcie_throughput": False,
}
"""The options of `with_source` for this host."""


def _print_sample(
    report: SmiReport, source: HostSource, gpus: Sequence[str], log: str | None = None
) -> None:
    """Print the next sample, from then on to a file if there is one."""
    snapshot = sample(source)
    chosen = chosen_gpus(snapshot, gpus) if report.is_of_gpus else snapshot
    lines = report.lines(snapshot, chosen)
    text = "".join(f"{line}\n" for line in lines)
    if log is not None:
        _redirect(log)
    terminal.write_text(text)
    refuse_silent_gpus(chosen.devices)


def _interval(request: Request) -> float | None:
    """Return the seconds of -l, or else of -lms; None for once. Raises SmiError for 0."""
    for option, otherwise, divisor in (("-l", 5.0, 1), ("-lms", 100.0, 1000)):
        if request.has(option):
            found = re.match(r"\d+", request.value(option) or "")
            amount = float(found[0]) if found else otherwise
            if not amount:
                what = "Provided [-l(ms) | --loop(-ms)=] value is incorrect. "
                raise SmiError(ExitStatus.USAGE, f"{what}Loop frequency must be greater than 0.\n")
            return amount / divisor
    return None


def _redirect(path: str) -> None:
    """Redirect stdout to the file of -f; raises SmiError."""
    try:
        terminal.redirect(path)
    except OutputError:
        raise SmiError(FAILED, f"Failed to create the log file {path}\n") from None


_SUMMARY = frozenset({"-i", "-g", "-f", "-l", "-lms", "--debug"})
_COMMANDS: Mapping[str, Command] = {
    "": Command(
        _show,
        _SUMMARY | {"-q", "-a", "-x", "-u", "-d", "--dtd"},
        FAILED,
        "is not recognized. Please run 'nvidia-smi -h'.",
    ),
    "-i -i": Command(_choose, frozenset({"-i"}), FAILED, f"is not recognized. {HELP}"),
    "-L": Command(_list, frozenset({"-L", "--debug"})),
    "-B": Command(_excluded, frozenset({"-B", "--debug"})),
    "-h": Command(_help, frozenset({"-h"})),
    "--version": Command(_versions, frozenset({"--version"})),
    **{
        f"--help-query-{name}": Command(
            partial(_help_query, name), frozenset({f"--help-query-{name}"})
        )
        for name in QUERIES
    },
    **{
        f"--query-{name}": Command(
            partial(_query, name),
            _SUMMARY | {f"--query-{name}", "--format"},
            refusal=f"is not recognized. {HELP}",
        )
        for name in QUERIES
    },
}
"""The commands by the option that selects them; others are left to the next nvidia-smi."""
