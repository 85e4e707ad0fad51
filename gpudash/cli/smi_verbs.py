"""The commands of nvidia-smi that begin with a word: topo, nvlink, dmon, pmon, mig and vgpu.

They are parsed like those of driver 535. Those that gpudash has too then run as its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from gpudash.cli import next_smi
from gpudash.cli.smi_options import (
    FAILED,
    SmiError,
    as_status,
    as_there,
    chosen_gpus,
    gpu_words,
    no_handle,
)
from gpudash.model.errors import ExitStatus, GpudashError
from gpudash.system import terminal

if TYPE_CHECKING:
    import argparse

    from gpudash.collect.source import HostSource
    from gpudash.model.details import MigLayout
    from gpudash.model.device import Device
    from gpudash.model.snapshot import Snapshot


class _Grammar(NamedTuple):
    """The options of a command, each group the spellings of one, and the beginning of its help."""

    about: str
    """The beginning of its help."""
    flags: str
    valued: str
    is_rolling: bool = False
    """Whether errors are followed by the usage, with status 0."""


_GRAMMARS: Mapping[str, _Grammar] = {
    "topo": _Grammar(
        "topo -- Display topological information about the system.",
        "-m --matrix|-mp --matrix_pci|-p --gpu_path|-C --get-numa-id-of-nearby-cpu|"
        "-M --get-numa-id-of-nearby-mem|-gnid --gpu-numa-id",
        "-i --id|-c --cpu|-n --nearest_gpus|-p2p --p2pstatus",
    ),
    "nvlink": _Grammar(
        "nvlink -- Display NvLink information.",
        "-s --status|-c --capabilities|-p --pcibusid|-R --remotelinkinfo|-e --errorcounters",
        "-i --id|-l --link|-gt --getthroughput",
    ),
    "dmon": _Grammar(
        "GPU statistics are displayed in scrolling format with one line\n"
        "    per sampling interval.",
        "",
        "-i --id|-d --delay|-c --count|-s --select|-o --options|-f --filename|--gpm-metrics",
        is_rolling=True,
    ),
    "pmon": _Grammar(
        "Process statistics are displayed in scrolling format per sampling\n    interval.",
        "",
        "-i --id|-d --delay|-c --count|-s --select|-o --options|-f --filename",
        is_rolling=True,
    ),
    "mig": _Grammar(
        "mig -- Multi Instance GPU management.",
        "-lgip --list-gpu-instance-profiles|-lgipp --list-gpu-instance-possible-placements|"
        "-lgi --list-gpu-instances|-lcip --list-compute-instance-profiles|"
        "-lcipp --list-compute-instance-possible-placements|-lci --list-compute-instances",
        "-i --id|-gi --gpu-instance-id|-ci --compute-instance-id",
    ),
    "vgpu": _Grammar(
        "vgpu -- Display vGPU information.",
        "-q --query|-u --utilization|-p --pmon|-s --supported|-c --creatable|"
        "-es --encodersessions|-m --migrationcap|-ss --schedulerstate|-sc --schedulercaps|"
        "-sl --schedulerlogs|-v --verbose|-fs --fbcsessions",
        "-i --id|-l --loop",
    ),
}
NAMES = frozenset(_GRAMMARS)
_CHANGES = (
    "-cgi --create-gpu-instance -dgi --destroy-gpu-instance -cci --create-compute-instance -dci "
    "--destroy-compute-instance -sc --setcontrol -r --resetcounters -re --reseterrorcounters "
    "-sLowPwrThres --setLowPowerThreshold -sBwMode --setBandwidthMode"
)
"""The options of mig and nvlink that change a GPU."""

_HOST_OF_VIRTUAL_GPUS = "/sys/module/nvidia_vgpu_vfio"
_NOT_NUMBERS = {"topo": ("-c", "-n"), "nvlink": ("-l",)}
"""The options with a number as value."""
_DELAYS = {"dmon": 600, "pmon": 10}
"""The longest delay in seconds."""
_LETTERS = {"dmon": "pucvmet", "pmon": "um"}
_MAX_GPM_METRIC = 97
_SINGLE = "must be used in conjunction with the -i argument which must be a single identifier.\n"
_OF_GPUS = {
    "-n": (1, f"Nearest GPUs argument {_SINGLE}"),
    "-p": (
        2,
        "Path command line flag must be used in conjection with the -i argument which must be two "
        "GPU identifiers.\n",
    ),
    "-C": (1, f"NUMA ID of nearest CPU {_SINGLE}"),
    "-M": (1, f"NUMA ID of nearest memory {_SINGLE}"),
    "-gnid": (1, f"GPU NUMA ID command {_SINGLE}"),
}
"""How many GPUs of -i an option of topo needs, and the error for another number."""

_OF_PROFILES = ("-lgip", "-lgipp")
"""The lists of mig that need no instance."""
_OF_ALL_GPUS = {
    "-m": "Failed to run topology matrix\n",
    "-mp": "Failed to run topology matrix\n",
    "-p2p": "Failed to display p2p capability matrix for the specified p2p Index\n",
}
"""The error of a topo option about all GPUs if one has no handle."""

Given = Mapping[str, str]
"""Values by the first spelling of their options, empty for flags."""


def run(
    words: Sequence[str], live: argparse.Namespace, elsewhere: Callable[[str], SmiError]
) -> int:
    """Do what nvidia-smi does with a command and its words; return the status.

    `live` are the options of a sample of this host. `elsewhere` hands on the rest, and returns the
    error if that is impossible. Raises SmiError.
    """
    name, *rest = words
    grammar = _GRAMMARS[name]
    if {"-h", "--help"} & {*rest} or (not rest and name in ("topo", "nvlink", "mig")):
        return _help(name)
    change = next((word for word in rest if word.partition("=")[0] in _CHANGES.split()), None)
    if change is not None and name in ("mig", "nvlink"):
        raise elsewhere(f"{name} {change}")
    try:
        given = _read(grammar, rest)
    except SmiError as error:
        next_smi.become(words)
        raise _with_usage(name, as_there(error)[1]) if grammar.is_rolling else error from None
    gpus = gpu_words(given.get("-i"))
    if name == "vgpu":
        if os.path.isdir(_HOST_OF_VIRTUAL_GPUS):
            raise elsewhere(name)
        text = "No supported devices in vGPU mode\n"
        return _of_gpus(gpus, live, frozenset(), lambda _: [text])
    if name == "mig":
        if not any(option.startswith("-l") for option in given):
            return _help(name)
        wanted = frozenset({"mig_mode", "mig_layout"})
        return _of_gpus(gpus, live, wanted, partial(_mig, given))
    _check(name, given)
    return _own(name, given, live.demo)


def _read(grammar: _Grammar, words: Sequence[str]) -> Given:
    """Return the options with their values; raises SmiError for invalid ones."""
    flags, valued = (
        {spelling: group.split()[0] for group in text.split("|") for spelling in group.split()}
        for text in (grammar.flags, grammar.valued)
    )
    given: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word in flags:
            given[flags[word]] = ""
        elif name in valued and equals:
            given[valued[name]] = value
        elif name in valued and rest and (rest[0][:1] != "-" or rest[0][1:].isdecimal()):
            given[valued[name]] = rest.pop(0)
        elif name in valued:
            raise SmiError(ExitStatus.USAGE, f'Option "{word}" is missing its value.')
        else:
            raise SmiError(ExitStatus.USAGE, f'Option "{word}" is not recognized.')
    return given


def _check(name: str, given: Given) -> None:
    """Raise SmiError for values that nvidia-smi rejects."""
    for option in _NOT_NUMBERS.get(name, ()):
        if option in given and re.fullmatch(r"-?\d+", given[option]) is None:
            raise SmiError(ExitStatus.USAGE, f'Option "{given[option]}" is invalid for "{option}".')
    if name == "topo":
        _check_topology(given)
    elif name == "nvlink" and given.get("-gt", "d") not in ("d", "r"):
        raise SmiError(ExitStatus.USAGE, "Failed to get throughput counters")
    elif name in _DELAYS:
        _check_rolling(name, given)


def _check_topology(given: Given) -> None:
    about = [option for option in _OF_GPUS if option in given]
    if "-i" in given and not about:
        text = "The -i command line argument must be used in conjunction with -n or -p.\n"
        raise SmiError(FAILED, text)
    if "-p2p" in given and given["-p2p"][:1] not in tuple("rwnap"):
        raise SmiError(
            ExitStatus.USAGE, "Invalid p2p capability index specified at the command-line"
        )
    for option in about:
        count, text = _OF_GPUS[option]
        if len(set(given.get("-i", "").split(",")) - {""}) != count:
            raise SmiError(ExitStatus.USAGE, text)
    if not 0 <= int(given.get("-n", 0)) <= 5:
        raise SmiError(FAILED, "Failed to display the nearest GPUs\n")


def _check_rolling(name: str, given: Given) -> None:
    failed = "Failed to process command line \n"
    delay, count = given.get("-d", "1"), given.get("-c", "1")
    if not (delay.isdecimal() and 1 <= int(delay) <= _DELAYS[name]):
        text = f"Collection delay/interval should be between 1 second and {_DELAYS[name]} seconds"
        raise _with_usage(name, f"{text}\n")
    if not (count.isdecimal() and int(count)):
        text = "Invalid value for number of samples to be displayed"
        raise _with_usage(name, f"{text}\n")
    if not set(given.get("-s", "u")) & set(_LETTERS[name]):
        raise SmiError(FAILED, f"Failed to find any metric to display\n{failed}")
    if not set(given.get("-o", "D")) <= set("DT"):
        raise SmiError(FAILED, f"Error in parsing options\n{failed}")


def _own(name: str, given: Given, demo: str | None) -> int:
    """Run gpudash's own command of that name."""
    from gpudash.cli import arguments

    if name in _LETTERS and "-s" in given:
        known = "".join(letter for letter in given["-s"] if letter in _LETTERS[name])
        given = {**given, "-s": known}
    metrics = _gpm_metrics(given.get("--gpm-metrics", ""))
    passed = [each for each in given.items() if each[0] != "--gpm-metrics"]
    words = [word for option in passed for word in option if word]
    before = [] if demo is None else [f"--demo={demo}"]
    options = arguments.parse([*before, name, *words])
    options.choose, options.gpm_metrics = partial(_chosen, name, given), metrics
    try:
        status: int = options.run(options)
    except GpudashError as error:
        about = [text for option, (_, text) in _OF_GPUS.items() if option in given]
        if name != "topo" or not about or error.exit_status != ExitStatus.USAGE:
            raise
        # Some of the GPUs do not exist.
        raise SmiError(ExitStatus.USAGE, about[0]) from None
    return status


def _gpm_metrics(text: str) -> Sequence[int]:
    """Return the numbers of `7,21`; raises SmiError."""
    numbers = [int(word) for word in text.split(",") if word.isdecimal()]
    wrong = re.search(r"[^\d,]", text, re.ASCII)
    reason = f"Found offending character: {wrong[0]}" if wrong else ""
    if too_high := [number for number in numbers if number > _MAX_GPM_METRIC]:
        reason = reason or f"Metric value too high: {too_high[0]}"
    if reason:
        text = f"{reason}\nCould not parse GPM metrics\nFailed to process command line \n"
        raise SmiError(FAILED, text)
    return numbers


def _chosen(name: str, given: Given, snapshot: Snapshot, words: Sequence[str]) -> Snapshot:
    """Return the snapshot with the GPUs of -i; raises SmiError if one has no handle."""
    from gpudash.analysis.selection import select
    from gpudash.model.snapshot import whole_gpus

    if name != "topo" or words:
        return chosen_gpus(snapshot, words)
    gpus = [str(gpu.index) for gpu in whole_gpus(snapshot) if not no_handle(gpu, "")]
    failing = [text for option, text in _OF_ALL_GPUS.items() if option in given]
    if failing and len(gpus) < len(whole_gpus(snapshot)):
        raise SmiError(FAILED, failing[0])
    if not gpus:
        text = (
            f"The GPUs that have an affinity with CPU {given['-c']} are:\nFailed to display GPUs "
        )
        raise SmiError(FAILED, f"{text}with affinity for a given CPU information\n")
    return select(snapshot, gpus)


def _of_gpus(
    words: Sequence[str],
    live: argparse.Namespace,
    wanted: Set[str],
    report: Callable[[Snapshot], Iterable[str]],
) -> int:
    """Print texts about the GPUs of -i, which include line ends; raises SmiError."""
    from gpudash.cli.oneshot import refuse_silent_gpus, sample, with_source

    def run(source: HostSource, _: object) -> int:
        gpus = chosen_gpus(sample(source), words)
        refuse_silent_gpus(gpus.devices)
        for text in report(gpus):
            terminal.write_text(text)
        return ExitStatus.OK

    return with_source(run, live, wanted=lambda: wanted)


def _mig(given: Given, gpus: Snapshot) -> Iterator[str]:
    """Yield the first of the requested lists."""
    from gpudash.output.smi_mig import LISTINGS
    from gpudash.output.smi_table import error_text

    divided = [gpu for gpu in gpus.devices if gpu.mig_mode]
    if not divided:
        raise SmiError(ExitStatus.NO_GPU, "No MIG-enabled devices found.")
    option, listing = next(each for each in LISTINGS.items() if each[0] in given)
    layouts = [(gpu.index, layout) for gpu in divided if (layout := _layout(gpu, option, given))]
    failures = [
        layout.failure
        for _, layout in layouts
        if (layout.profiles if option in _OF_PROFILES else layout.instances) is None
    ]
    is_below = option.startswith("-lc")
    if failures:
        code = failures[0] or FAILED
        what = "No GPU instances found" if is_below else f"Failed to display {listing.what}"
        if option in _OF_PROFILES:
            yield listing.headings
        raise SmiError(as_status(code), f"{what}: {error_text(code)}")
    if option not in _OF_PROFILES and not any(layout.instances for _, layout in layouts):
        raise SmiError(ExitStatus.NO_GPU, "No GPU instances found: Not Found")
    yield listing.headings
    yield from (f"{line}\n" for line in listing.lines(layouts))


def _layout(gpu: Device, option: str, given: Given) -> MigLayout | None:
    """Return how a GPU is divided; for compute instances only with the GPU instances of -gi."""
    from msgspec.structs import replace

    layout: MigLayout | None = getattr(gpu, "mig_layout", None)
    if layout is None or layout.instances is None or not option.startswith("-lc"):
        return layout
    kept = given["-gi"].split(",") if "-gi" in given else None
    instances = [each for each in layout.instances if kept is None or str(each.id) in kept]
    return replace(layout, instances=tuple(instances))


def _help(name: str) -> int:
    terminal.write_text(f"\n    {_GRAMMARS[name].about}\n\n{_usage(name)}")
    return ExitStatus.OK


def _with_usage(name: str, text: str) -> SmiError:
    return SmiError(ExitStatus.OK, f"{text}\n{_usage(name)}", end="")


def _usage(name: str) -> str:
    """Return the options with their descriptions, taken from gpudash's own command."""
    from textwrap import fill

    from gpudash.cli.parser import command_parser
    from gpudash.cli.verbs import names

    own = command_parser(name).spellings if name in names() else {}
    helps = {word: action.help for word, action in own.items()}
    if name == "mig":
        from gpudash.output.smi_mig import LISTINGS

        helps = {option: f"list {listing.what}" for option, listing in LISTINGS.items()}
        helps["-gi"] = "with a list of what is in them: only these GPU instances"
    helps["-i"] = "only these GPUs: indices, UUIDs or PCI bus ids"
    grammar = _GRAMMARS[name]
    lines = [f"    Usage: nvidia-smi {name} [options]", "", "    Options include:"]
    for group in ("-h --help", *f"{grammar.flags}|{grammar.valued}".strip("|").split("|")):
        text = f"[{group.replace(' ', ' | ')}]: {helps.get(group.split()[0]) or ''}".rstrip(": ")
        lines.append(fill(text, 96, initial_indent=" " * 4, subsequent_indent=" " * 17))
    return "".join(f"{line}\n" for line in (*lines, "", ""))
