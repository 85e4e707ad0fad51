"""`gpudash --help`: the essentials on one screen; `--help-all` has the rest."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from gpudash import __version__
from gpudash.cli import verbs
from gpudash.cli.parser import Parser
from gpudash.system import terminal

ABOUT = "A terminal dashboard for NVIDIA GPUs: who holds each one, and why it is slow."
"""A one-sentence description of gpudash."""
_PAGE = """\
{about}

  gpudash                the live screen; h lists its keys
  gpudash --once         the same as a table, printed once; --json for scripts
  gpudash kill PID...    signal processes, after a confirmation
  gpudash pick -n 2      free GPUs: CUDA_VISIBLE_DEVICES=$(gpudash pick)
  gpudash doctor         why GPUs or processes are missing, and what to do
  gpudash help TOPIC     reference: keys, filter, settings, findings, ...

{others}
Options of each: gpudash COMMAND --help; of all: gpudash --help-all

  --gpu LIST             only these GPUs: 0,2-3, UUID prefixes, PCI bus ids
  --host NAMES           another host, or many, by ssh: lab7, gpu[01-16], @group
  --prometheus URL       the hosts that a Prometheus knows
  --interval S           seconds between samples (1)
  --demo                 simulate a host; needs no GPU
  --read-only            disable signals to processes
  --fail-on LEVEL        with --once: exit 1 on findings: info, warn, critical
  --format F             {formats}

Options of nvidia-smi and gpustat work as well: --query-gpu, --json=gpustat, ...
"""
_SHOWN = frozenset({"kill", "pick", "doctor", "help"})


def formats_help() -> str:
    """Return the help of --format, with the name of every format."""
    from gpudash.output import FORMATS

    *names, last = FORMATS
    return f"print once as {', '.join(names)} or {last}"


class ShortHelp(Parser):
    """A parser whose help is one page."""

    def format_help(self) -> str:
        """Return the page."""
        import textwrap

        listed = ", ".join(name for name in verbs.names() if name not in _SHOWN)
        others = textwrap.fill(f"Other commands: {listed}.", 78)
        return _PAGE.format(about=ABOUT, formats=formats_help(), others=others)

    def format_complete_help(self) -> str:
        """Return every option and command."""
        return super().format_help()


class Printing(argparse.Action):
    """An option that prints something and exits."""

    def __init__(self, **declared: Any) -> None:
        super().__init__(nargs=0, default=argparse.SUPPRESS, **declared)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        """Print and exit; raises OutputError."""
        terminal.write_text(self.text(parser))
        parser.exit()

    def text(self, parser: argparse.ArgumentParser) -> str:
        """Return the text to print."""
        raise NotImplementedError


class Version(Printing):
    """Prints the version."""

    def text(self, parser: argparse.ArgumentParser) -> str:
        """Return the name and the version."""
        return f"gpudash {__version__}\n"


class QueryFields(Printing):
    """Prints the fields of a query: --help-query-gpu."""

    def text(self, parser: argparse.ArgumentParser) -> str:
        """Return a line per field, with its other names."""
        from gpudash.output.queries import QUERIES

        return _listed(QUERIES[self.option_strings[0].removeprefix("--help-query-")].fields)


def _listed(fields: Mapping[str, Any]) -> str:
    own = [field for name, field in fields.items() if name == field.name]
    return "".join(f"{' or '.join((field.name, *field.aliases))}\n" for field in own)
