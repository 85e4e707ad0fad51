"""Lists of hosts: `gpu[01-16],lab7,!gpu07`, files of hosts, `@group`, `slurm:PARTITION`.

The grammar is that of pdsh, ClusterShell and Slurm. Every name is checked before it can become an
argument of ssh.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import lru_cache
from itertools import product
from math import prod

from gpudash.model.errors import UsageError
from gpudash.model.text import clean, did_you_mean

MAX_HOSTS = 4096
"""More hosts than ssh from one machine can handle."""

SLURM = "slurm:"

_HOST = re.compile(r"[A-Za-z0-9_.@:%+][A-Za-z0-9_.@:%+-]*")
_GROUP = re.compile(r"[A-Za-z0-9_.:][A-Za-z0-9_.:-]*")
_PARTITION = re.compile(r"[A-Za-z0-9_.+][A-Za-z0-9_.+-]*")
_JOB = re.compile(r"[0-9]{1,18}(_[0-9]{1,18})?")
_BRACKET = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?:/([0-9]{1,4}))?)?")
_NUMBERED = re.compile(r"([^.]*?)([0-9]{1,9})([^0-9.]*(?:\..*)?)")
"""The last number of a name before its domain."""
_SLOTS = re.compile(r"([^:]+):[0-9]+")
_SEPARATOR = re.compile(r",(?![^\[]*\])")
"""A comma outside brackets."""
_MAX_FILE_BYTES = 1 << 20
_MAX_DEPTH = 8
_COMMAND_SECONDS = 20.0
_SHOWN = 60

Groups = Mapping[str, str]
"""The hosts of each group, in the grammar of `expand`."""


def expand(
    specs: Iterable[str],
    *,
    files: Iterable[str] = (),
    groups: Groups | None = None,
    command_seconds: float = _COMMAND_SECONDS,
) -> dict[str, str | None]:
    """Return each host once, in the order of the list, with the group that names it.

    This is the @group or the partition, None for neither; a job's hosts have none. `!` before a
    term removes its hosts, wherever it stands. Slurm and ClusterShell have `command_seconds` for
    each answer. Raises UsageError.
    """
    terms = [term for spec in specs for term in _split(spec)]
    terms += [term for path in files for term in _read_terms(path)]
    known = groups or {}
    found: dict[str, str | None] = {}
    without: set[str] = set()
    for term in terms:
        if term.startswith("!"):
            without.update(name for name, _ in _expand_term(term[1:], known, command_seconds))
            continue
        for name, group in _expand_term(term, known, command_seconds):
            if found.get(name) is None:
                found[name] = group
            if len(found) > MAX_HOSTS:
                raise UsageError(f"more than {MAX_HOSTS} hosts: name fewer, or use --prometheus")
    left = {name: group for name, group in found.items() if name not in without}
    if not left:
        raise UsageError("no host is left: name at least one, such as --host gpu[01-16],lab7")
    return left


def folded(names: Iterable[str]) -> str:
    """Return names in the syntax of `expand`, `gpu[01-03,07],lab7`, each group in its order."""
    groups: dict[tuple[str, str], list[list[str]]] = {}
    for name in names:
        match = _NUMBERED.fullmatch(name)
        if match is None:
            groups[name, ""] = [[""]]
            continue
        before, number, after = match.groups()
        spans = groups.setdefault((before, after), [])
        first, last = (spans[-1][0], spans[-1][-1]) if spans else ("", "")
        cells = len(first) if first.startswith("0") else len(number)
        if last and len(number) == cells and number == str(int(last) + 1).zfill(cells):
            spans[-1][1:] = [number]
        else:
            spans.append([number])
    found = []
    for (before, after), spans in groups.items():
        numbers = ",".join("-".join(each) for each in spans)
        is_one = len(spans) == len(spans[0]) == 1
        found.append(f"{before}{numbers}{after}" if is_one else f"{before}[{numbers}]{after}")
    return ",".join(found)


def check_host(name: str) -> str:
    """Return a name that is safe as an argument of ssh; raises UsageError for any other."""
    if len(name) > 255 or not _HOST.fullmatch(name):
        raise UsageError(
            f"invalid host {_shown(name)}: expected a name or an address, such as lab7, "
            "user@lab7 or gpu[01-16]"
        )
    return name


@lru_cache(maxsize=1 << 16)
def short(name: str) -> str:
    """Return a host's name without user and domain; addresses are unchanged."""
    head = name.partition(".")[0]
    return name if head.isdecimal() or ":" in name else head.rpartition("@")[2]


def _split(spec: str) -> list[str]:
    return [term.strip() for term in _SEPARATOR.split(spec) if term.strip()]


def _expand_term(
    term: str, groups: Groups, seconds: float, depth: int = 0
) -> Iterator[tuple[str, str | None]]:
    """Yield the hosts of a term with their group; hosts of a nested group have the outer one."""
    if term.startswith("@"):
        name = term[1:]
        for spec in _group_terms(name, groups, seconds, depth):
            for host, _ in _expand_term(spec, groups, seconds, depth + 1):
                yield host, clean(name)
    elif term.startswith(SLURM):
        yield from _slurm_hosts(term.removeprefix(SLURM), seconds)
    else:
        for name in _expand_brackets(term):
            yield check_host(name), None


def _expand_brackets(term: str) -> Iterator[str]:
    """Yield the names in `a[01-03,07]b[1-2]`, expanding the last brackets first."""
    parts = _BRACKET.split(term)
    choices = [
        list(_numbers(part, term)) if index % 2 else [part] for index, part in enumerate(parts)
    ]
    if prod(map(len, choices)) > MAX_HOSTS:
        raise UsageError(f"more than {MAX_HOSTS} hosts in {_shown(term)}: name fewer")
    for names in product(*choices):
        yield "".join(names)


def _numbers(text: str, term: str) -> Iterator[str]:
    """Yield the numbers of a list of ranges as written, with leading zeros."""
    total = 0
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise _invalid_range(term, part)
        first, last, step = match[1], match[2] or match[1], int(match[3] or 1)
        is_padded = len(first) > 1 and first.startswith("0")
        if int(last) < int(first) or step < 1 or (is_padded and len(last) != len(first)):
            raise _invalid_range(term, part)
        if not is_padded and len(last) > 1 and last.startswith("0"):
            raise _invalid_range(term, part)
        total += (int(last) - int(first)) // step + 1
        if total > MAX_HOSTS:
            raise UsageError(f"more than {MAX_HOSTS} hosts in {_shown(term)}: name fewer")
        for number in range(int(first), int(last) + 1, step):
            yield str(number).zfill(len(first) if is_padded else 0)


def _invalid_range(term: str, part: str) -> UsageError:
    return UsageError(
        f"invalid range {_shown(part)} in {_shown(term)}: expected numbers, such as gpu[01-16,20]"
    )


def _group_terms(name: str, groups: Groups, seconds: float, depth: int) -> list[str]:
    """Return the terms of a group of the settings, else of ClusterShell's `nodeset`."""
    if depth >= _MAX_DEPTH:
        raise UsageError(f"group @{_shown(name)} contains itself: remove that from [fleet.groups]")
    if name in groups:
        return _split(groups[name])
    if not _GROUP.fullmatch(name):
        raise UsageError(f"invalid group {_shown('@' + name)}: expected @NAME")
    if depth == 0 and shutil.which("nodeset") is not None:
        return _output(["nodeset", "-e", f"@{name}"], f"group @{name}", seconds).split()
    hint = did_you_mean(name, groups) or "groups stand in the settings under [fleet.groups]"
    raise UsageError(f"unknown group @{clean(name, _SHOWN)}: {hint}")


def _slurm_hosts(what: str, seconds: float) -> Iterator[tuple[str, str | None]]:
    """Yield the nodes of our own job, of a job by number, or of a partition."""
    group: str | None = None
    if not what:
        nodes = os.environ.get("SLURM_JOB_NODELIST", "")
        if not nodes:
            raise UsageError(
                "slurm: stands for the nodes of this job, and this is none: "
                "name a job or a partition, such as slurm:4242 or slurm:a100"
            )
    elif _JOB.fullmatch(what):
        command = ["squeue", "--noheader", f"--jobs={what}", "--format=%N"]
        nodes = _output(command, f"job {what}", seconds)
    elif _PARTITION.fullmatch(what):
        group = clean(what)
        command = ["sinfo", "--noheader", f"--partition={what}", "--format=%N"]
        nodes = _output(command, f"partition {what}", seconds)
    else:
        raise UsageError(f"invalid {_shown(SLURM + what)}: expected slurm:PARTITION or slurm:JOBID")
    for line in nodes.splitlines():
        # A list of nodes is one word; the words of a greeting would look like hosts.
        if len(line.split(maxsplit=1)) > 1:
            raise UsageError(f"Slurm names no nodes for {what}: it printed {_shown(line)}")
    terms = _split(",".join(nodes.split()))
    if not terms:
        raise UsageError(f"Slurm names no nodes for {what}: squeue and sinfo list what there is")
    for term in terms:
        for name in _expand_brackets(term):
            yield check_host(name), group


def _output(argv: Sequence[str], about: str, seconds: float) -> str:
    """Return a command's output; raises UsageError with its error message."""
    from gpudash.feed.supervisor import Output

    with closing(Output(argv, seconds)) as run:
        run.run()
    if run.failure is not None:
        raise UsageError(f"{about}: {argv[0]} failed: {run.failure}")
    return b"\n".join(run.lines).decode(errors="replace")


def _read_terms(path: str) -> Iterator[str]:
    """Yield the terms of a file: a line each, comments, `host slots=8`, `host:8`, brackets."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {_shown(path)}: {error.strerror}") from None
    if len(text) > _MAX_FILE_BYTES:
        raise UsageError(f"{_shown(path)} is too large for a list of hosts: expected one a line")
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        for word in _split(words[0]):
            slots = None if word.startswith(SLURM) else _SLOTS.fullmatch(word)
            term = slots[1] if slots else word
            try:
                # Only checked here, where the line number is known.
                if not term.lstrip("!").startswith(("@", SLURM)):
                    for name in _expand_brackets(term.lstrip("!")):
                        check_host(name)
            except UsageError as error:
                raise UsageError(f"{clean(path)}:{number}: {error}") from None
            yield term


def _shown(text: str) -> str:
    return repr(str(clean(text, _SHOWN)))
