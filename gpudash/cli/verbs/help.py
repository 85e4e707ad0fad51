"""`gpudash help TOPIC`: the reference, generated from the tables of keys, settings, fields, ..."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from gpudash.cli import verbs
from gpudash.cli.options import is_ascii
from gpudash.cli.verbs import Verb
from gpudash.model.errors import MEANINGS, ExitStatus, UsageError
from gpudash.model.text import did_you_mean, pad, wrap
from gpudash.system import terminal
from gpudash.system.files import settings_file

if TYPE_CHECKING:
    from gpudash.model.state import State
    from gpudash.output.smi import SmiField

_MAX_WIDTH = 100
_MAX_TERM = 26
_ASCII = {"⏎": "Enter", "↓": "Down", "↑": "Up", "→": "Right", "←": "Left", "…": "..."}


ENVIRONMENT = {
    "GPUDASH_CONFIG": "The settings file instead of ~/.config/gpudash/config.toml.",
    "GPUDASH_READ_ONLY": "If set to anything but 0, nothing can be signalled.",
    "GPUDASH_SOCKET": "The socket of gpudash serve instead of /run/gpudash/gpudash.sock; empty to "
    "read the driver as --fresh does.",
    "GPUDASH_LOCK_DIR": "Folder for leases that containers share, with a file for each UUID.",
    "GPUDASH_LEASE": "Set for the command of gpudash run: the GPUs leased for it.",
    "GPUDASH_HANDED_ON": "Set for the nvidia-smi that gpudash smi hands a command to, which is not "
    "handed back.",
    "GPUDASH_PROMETHEUS": "URLs for --prometheus without one; if set, gpudash, --once and --json "
    "show the hosts that it knows, and this host again where it is empty.",
    "GPUDASH_PROM_TOKEN": "The bearer token for --prometheus, where the settings have none for its "
    "URL.",
    "GPUDASH_SCRAPE": "URLs for --scrape without one.",
    "CUDA_VISIBLE_DEVICES": "If set, what pick, wait and run choose from; run sets it.",
    "COLUMNS": "How wide a table is where it is not written to a terminal, instead of 80.",
    "NO_COLOR": "If set, no colours are used.",
    "TERM": "A VT100 to VT525 (vt220), or a name in -m or -mono: ASCII without colours is used.",
}


class HelpSection(NamedTuple):
    """A heading and its entries: each term with its description."""

    title: str
    rows: list[tuple[str, str]]


class Topic(NamedTuple):
    """A part of the reference."""

    help: str
    sections: Callable[[], Iterable[HelpSection]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `gpudash help` takes."""
    text = f"{', '.join(TOPICS)}, or a command"
    parser.add_argument("topic", nargs="?", metavar="TOPIC", help=text)


def run(options: argparse.Namespace) -> int:
    """Print a part of the reference, through a pager on a terminal; raises UsageError."""
    name: str | None = options.topic
    if name in verbs.names():
        from gpudash.cli.parser import command_parser

        command_parser(name).print_help()
        return ExitStatus.OK
    if name is not None and name not in TOPICS:
        known = [*TOPICS, *verbs.names()]
        hint = did_you_mean(name, known)
        raise UsageError(
            f"unknown topic {name!r}: {hint and hint + ' '}choose from {', '.join(known)}"
        )
    sections = TOPICS[name].sections() if name else [_topics()]
    width = min(terminal.width(), _MAX_WIDTH)
    text = "\n".join(_lines(sections, width))
    if is_ascii(options):
        text = "".join(_ASCII.get(char, char) for char in text)
        text = text.encode("ascii", "backslashreplace").decode()
    _show(f"{text}\n")
    return ExitStatus.OK


def _show(text: str) -> None:
    pager = _pager() if terminal.is_terminal() and sys.stdin.isatty() else None
    if pager is None:
        terminal.write_text(text)
        return
    import subprocess

    # A single screenful needs no pager.
    environ = {"LESS": "FRX", **os.environ}
    process = subprocess.Popen(pager, shell=True, stdin=subprocess.PIPE, env=environ)
    # Ctrl-C is for the pager.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    process.communicate(text.encode())


def _pager() -> str | None:
    """Return the command of a pager, None if there is none or the terminal is too simple."""
    named = os.environ.get("MANPAGER") or os.environ.get("PAGER")
    if named or os.environ.get("TERM") in ("dumb", "emacs"):
        return named
    from shutil import which

    return which("less") or which("more")


def _lines(sections: Iterable[HelpSection], width: int) -> Iterator[str]:
    for number, section in enumerate(sections):
        if number:
            yield ""
        yield section.title
        longest = max((len(term) for term, _ in section.rows), default=0)
        margin = 2 + min(longest, _MAX_TERM) + 2
        for term, about in section.rows:
            first, *others = wrap(about.replace("`", ""), max(20, width - margin), lines=99)
            if len(term) > _MAX_TERM:
                yield f"  {term}"
                others = [first, *others] if first else others
            else:
                yield f"  {pad(term, margin - 4)}  {first}".rstrip()
            yield from (" " * margin + line for line in others)


def _topics() -> HelpSection:
    rows = [(name, topic.help) for name, topic in TOPICS.items()]
    return HelpSection("gpudash help TOPIC, or a command:", rows)


def _keys() -> Iterator[HelpSection]:
    from gpudash.tui.bindings import actions
    from gpudash.tui.keymap import FLEET_KEYS, KEYS

    settable = set(actions())
    of_many = [key for key in FLEET_KEYS if key not in KEYS]
    for title, several in (("{}", KEYS), ("Many hosts: {}", of_many)):
        for group, keys in groupby(several, lambda key: key.group):
            rows = [
                (key.shown, f"{key.help} [{key.id}]" if key.id in settable else key.help)
                for key in keys
            ]
            yield HelpSection(title.format(group), rows)
    yield HelpSection("Names in brackets are those of [keys] in the settings file", [])


def _filter() -> Iterator[HelpSection]:
    from gpudash.analysis.columns.processes import PERCENTAGES
    from gpudash.analysis.filter.terms import TERMS, Term
    from gpudash.fleet.where import KIND
    from gpudash.fleet.where import TERMS as OF_GPUS

    def rows(terms: Iterable[Term[Any]]) -> list[tuple[str, str]]:
        return [(each.example, f"{each.help} ({' '.join(each.operators)})") for each in terms]

    yield HelpSection("Terms of a filter, with their operators", rows(TERMS))
    yield HelpSection(f"Percentages of a process or user: {PERCENTAGES}", [])
    yield HelpSection("Terms of a filter of many hosts and --where", rows(OF_GPUS))
    yield HelpSection("A term for what happened, beside these", rows([KIND]))
    negated = "A - or ! before a word negates it; in a shell: --filter=-kind:job"
    yield HelpSection(negated, [])


def _settings() -> Iterator[HelpSection]:
    import msgspec

    from gpudash.config.file import rendered
    from gpudash.config.settings import declared, plain
    from gpudash.tui.preferences import choices

    known = msgspec.structs.replace(choices(), actions=("see gpudash help keys",))
    rows: list[tuple[str, str]] = []
    tables = []
    for each in declared().values():
        if isinstance(each.default, msgspec.Struct):
            tables.append(each)
            continue
        valid, default = each.kind.valid(known), rendered(plain(each.default))
        rows.append((each.name, f"{each.help} Valid: {valid}. Default: {default}"))
    yield HelpSection(f"Settings in {settings_file()}", rows)
    for each in tables:
        yield HelpSection(f"[{each.name}] {each.help}", list(_table_rows(each.default)))


def _table_rows(table: Any) -> Iterator[tuple[str, str]]:
    import msgspec

    from gpudash.config.settings import example_of

    for field in msgspec.structs.fields(table):
        about = get_args(field.type)[1].description
        yield field.name, f"{about} Such as: {example_of(field)}"


def _findings() -> Iterator[HelpSection]:
    from gpudash.analysis.health.rules import RULES
    from gpudash.fleet.health import RULES as FLEET_RULES
    from gpudash.model.state import STATES

    for title, rules in (
        ("Findings, the most important first: word in STATUS, condition", RULES),
        ("Findings on many hosts", FLEET_RULES),
    ):
        rows = [
            (rule.id, f"{_word(rule.status)}{rule.help}{_delay(rule.appears_after_seconds)}")
            for rule in rules
        ]
        yield HelpSection(title, rows)
    yield HelpSection("States of a GPU", [(state.word, state.sentence) for state in STATES])


def _word(state: State | None) -> str:
    """Return the word in the STATUS column, empty for a finding without one."""
    return "" if state is None else f"{state.word}: "


def _delay(seconds: float) -> str:
    return f"; reported after {seconds:g} s" if seconds else ""


def _exit() -> Iterator[HelpSection]:
    yield HelpSection(
        "Exit statuses", [(str(number), text) for number, text in sorted(MEANINGS.items())]
    )


def _queries() -> Iterator[HelpSection]:
    from gpudash.output.queries import QUERIES
    from gpudash.output.smi import NOT_READ
    from gpudash.output.smi_details import SECTIONS

    for query, kind in QUERIES.items():
        read = {name: field for name, field in kind.fields.items() if name not in NOT_READ}
        yield HelpSection(f"--query-{query}", _query_rows(read))
    yield HelpSection("Always [N/A]", [(name, "") for name in NOT_READ])
    yield HelpSection("Sections of -q for -d", [(name, "") for name in SECTIONS])


def _query_rows(fields: Mapping[str, SmiField[Any]]) -> list[tuple[str, str]]:
    rows = []
    for name, field in fields.items():
        if name == field.name:
            also = f"also {', '.join(field.aliases)}" if field.aliases else ""
            rows.append((name, "; ".join(text for text in (field.unit, also) if text)))
    return rows


def _fields() -> Iterator[HelpSection]:
    from gpudash.model import fleet, report, wire

    definitions = wire.json_schema()["$defs"]
    first = ("Snapshot", "Host", "Device", "Process", "ProcessDevice", "Job", "Topology")
    definitions |= fleet.json_schema()["$defs"] | report.json_schema()["$defs"]
    for name in dict.fromkeys([*first, *sorted(definitions)]):
        rows = [_field_row(*field) for field in definitions[name]["properties"].items()]
        yield HelpSection(f"{name}: {definitions[name]['description']}", rows)


def _field_row(name: str, about: Mapping[str, str]) -> tuple[str, str]:
    unit = f" Unit: {about['x-unit']}." if about.get("x-unit") else ""
    calls = f" NVML: {about['x-nvml']}." if about.get("x-nvml") else ""
    return name, f"{about['description']}{unit}{calls}"


TOPICS: dict[str, Topic] = {
    "keys": Topic("the keys of the screens, and their names in the settings", _keys),
    "filter": Topic("the terms of a filter", _filter),
    "settings": Topic("the settings, with valid values and defaults", _settings),
    "findings": Topic("findings about GPUs and processes; states of a GPU", _findings),
    "exit": Topic("the exit statuses", _exit),
    "environment": Topic(
        "the environment variables",
        lambda: [HelpSection("Environment variables", list(ENVIRONMENT.items()))],
    ),
    "queries": Topic("the fields of --query-gpu and the like", _queries),
    "fields": Topic("the fields of --json, with units and NVML calls", _fields),
}
"""The parts of the reference, by name."""

VERB = Verb("the reference: " + ", ".join(TOPICS), add_arguments, run)
