"""`gpudash doctor`: checks of driver, environment and installation, each bounded in time."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from signal import Signals

import msgspec

from gpudash.cli.arguments import add_shared
from gpudash.cli.oneshot import write_json
from gpudash.cli.options import has_color, is_ascii
from gpudash.cli.verbs import Verb
from gpudash.collect.local import open_once
from gpudash.doctor import driver, environment, toolkit
from gpudash.doctor.checks import Check, Machine, Verdict, failed, worst
from gpudash.model import wire
from gpudash.model.errors import ExitStatus, GpudashError, OutputError, UsageError
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import clean, fold, pad, wrap
from gpudash.output.table import Style, ellipsis, painter, shown
from gpudash.system import terminal
from gpudash.system.files import settings_file
from gpudash.system.fork import Reply, call_isolated

_DEFAULT_TIMEOUT = 5.0
_STYLES: dict[Verdict, Style] = {"PASS": "green", "WARN": "yellow", "FAIL": "red"}
_INDENT = 6
_LINES = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `gpudash doctor` takes."""
    text = f"seconds that a check may take ({_DEFAULT_TIMEOUT:g})"
    add_shared(parser, "timeout", "json", "ascii", timeout=text)
    text = "write a new text file for a bug report, masked; lists first what it will hold"
    parser.add_argument("--bundle", metavar="FILE", help=text)


def run(options: argparse.Namespace) -> int:
    """Print every check and return 1 if any failed."""
    in_ascii, timeout = is_ascii(options), options.timeout or _DEFAULT_TIMEOUT
    checks = examine(Machine(), timeout, config=not options.no_config, utf8=not in_ascii)
    if options.bundle is not None:
        return _write_bundle(options.bundle, checks, timeout)
    if options.json:
        write_json(checks)
    else:
        text = render_checks(checks, width=terminal.width(), color=has_color(), ascii=in_ascii)
        terminal.write(text.encode("ascii" if in_ascii else "utf-8", "backslashreplace"))
    return ExitStatus.FAILURE if worst(checks) == "FAIL" else ExitStatus.OK


def _write_bundle(path: str, checks: Sequence[Check], timeout: float) -> int:
    """List the contents of a bug report, and write it unless the user at the terminal declines.

    Raises UsageError if the file exists, OutputError if it cannot be written.
    """
    from gpudash import config
    from gpudash.doctor import bundle
    from gpudash.tui.preferences import choices

    if os.path.lexists(path):
        raise UsageError(f"{clean(path)} exists: choose another name")
    rendered = render_checks(checks, width=100, color=False, ascii=True)
    settings, _ = config.load(settings_file(), choices())
    parts = bundle.sections(Machine(), rendered, settings, _snapshot(timeout))
    lines = [f"  {part.title}" for part in parts]
    os.write(2, "\n".join([f"{clean(path)} will hold:", *lines, bundle.MASKED, ""]).encode())
    if os.isatty(0) and terminal.ask("Write it? [y/N] ").lower() not in (b"y", b"yes"):
        return ExitStatus.FAILURE
    try:
        # Readable only by its owner, and never through a link.
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(bundle.render(parts))
    except OSError as error:
        raise OutputError(f"{clean(path)}: {error.strerror}") from None
    return ExitStatus.OK


def _snapshot(timeout: float) -> Snapshot | str:
    """Return the host with its findings, or why it is unreadable."""

    def sample() -> bytes:
        from gpudash.analysis.health.engine import Diagnosis

        try:
            return wire.encode(Diagnosis().examine(open_once(None, 0.6 * timeout).sample()))
        except GpudashError as error:
            return msgspec.json.encode(str(error))

    (reply,) = call_isolated([sample], timeout)
    if isinstance(reply, bytes):
        # Of the two, only a snapshot is an object.
        return wire.decode(reply) if reply[:1] == b"{" else msgspec.json.decode(reply, type=str)
    return _slow(timeout) if reply is None else f"the collector {_ended(reply)}"


def examine(machine: Machine, timeout: float, *, config: bool, utf8: bool) -> list[Check]:
    """Return all checks; those of a kind that takes longer than `timeout` become one failure."""
    (reply,) = call_isolated(
        [lambda: msgspec.json.encode(driver.examine(open_once(None, 0.6 * timeout), machine))],
        timeout,
    )
    answer = _answer(reply, timeout)
    groups: dict[str, Callable[[], list[Check]]] = {
        "kernel": lambda: driver.kernel_checks(machine, answers=answer.is_open),
        "environment": lambda: environment.checks(machine),
        "service": environment.service_checks,
        "history": environment.history_checks,
        "CUDA": lambda: toolkit.checks(machine, answer.cuda_driver_version),
        "gpudash": lambda: environment.installation_checks(_mistakes(config)),
        "terminal": lambda: _terminal_checks(machine.environ, utf8),
    }
    found = call_isolated([_encoded(group) for group in groups.values()], timeout)
    kernels, *others = (
        msgspec.json.decode(reply, type=list[Check])
        if isinstance(reply, bytes)
        else [_no_reply(name, reply, timeout)]
        for name, reply in zip(groups, found, strict=True)
    )
    return [*kernels, *answer.checks, *(check for group in others for check in group)]


def _answer(reply: Reply, timeout: float) -> driver.DriverReport:
    if isinstance(reply, bytes):
        return msgspec.json.decode(reply, type=driver.DriverReport)
    advice = "see the kernel log: sudo dmesg | grep -i -e xid -e nvrm"
    if reply is None:
        return driver.DriverReport(checks=[failed("driver", _slow(timeout), advice)])
    return driver.DriverReport(checks=[failed("driver", f"its library {_ended(reply)}", advice)])


def _slow(timeout: float) -> str:
    return f"did not answer in {timeout:g} s"


def _ended(code: int) -> str:
    """Return how a child ended without an answer."""
    if -code in set(Signals):
        return f"was ended by {Signals(-code).name}"
    if code == ExitStatus.SYSTEM:
        return "had no open file, thread or memory left; ulimit -a shows the limits"
    return f"ended with status {code}"


def _encoded(group: Callable[[], list[Check]]) -> Callable[[], bytes]:
    return lambda: msgspec.json.encode(group())


def _no_reply(name: str, reply: int | None, timeout: float) -> Check:
    if reply is not None:
        return failed(name, f"the examination {_ended(reply)}")
    return failed(name, f"{_slow(timeout)}: a file system may hang")


def _mistakes(config: bool) -> list[str]:
    """Return the mistakes in the settings file."""
    if not config:
        return []
    from gpudash.tui.preferences import Preferences

    return Preferences(settings_file()).mistakes


def _terminal_checks(environ: Mapping[str, str], utf8: bool) -> list[Check]:
    from gpudash.tui.cells import color_system

    names = {"TRUECOLOR": "16 million", "EIGHT_BIT": "256", "STANDARD": "16"}
    colors = color_system(environ).name
    return environment.terminal_checks(
        environ, _size(), colors=names.get(colors, colors), utf8=utf8
    )


def _size() -> tuple[int, int] | None:
    """Return columns and lines of the terminal, even if the output is redirected."""
    for descriptor in (1, 2, 0):
        try:
            return os.get_terminal_size(descriptor)
        except OSError:
            continue
    return None


def render_checks(checks: Sequence[Check], *, width: int, color: bool, ascii: bool) -> str:
    """Return the checks, wrapped to this width, and a line that counts them."""
    paint = painter(color)
    topics = max((len(check.topic) for check in checks), default=0)
    margin = _INDENT + topics + 2
    out: list[str] = []
    for check in checks:
        head = paint(check.verdict, _STYLES[check.verdict])
        first, *others = _wrapped(check.finding, width - margin, ascii)
        out.append(f"{head}  {pad(check.topic, topics)}  {first}")
        out += [" " * margin + line for line in others]
        if check.advice:
            arrow = "-> " if ascii else "→ "
            lines = _wrapped(arrow + check.advice, width - margin, ascii)
            out += [" " * margin + paint(line, "bold") for line in lines]
    return "\n".join([*out, "", _count(checks)]) + "\n"


def _wrapped(text: str, cells: int, ascii: bool) -> list[str]:
    """Return a text in lines; a path longer than a line continues in the next."""
    safe, cells = shown(text, ascii), max(cells, 20)
    lines = fold(safe, cells)
    return lines if len(lines) <= _LINES else wrap(safe, cells, lines=_LINES, mark=ellipsis(ascii))


def _count(checks: Sequence[Check]) -> str:
    counts = {verdict: sum(check.verdict == verdict for check in checks) for verdict in _STYLES}
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)


VERB = Verb("check the driver, the environment and this installation", add_arguments, run)
