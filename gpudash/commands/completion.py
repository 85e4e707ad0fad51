"""`gpudash completion`: what a shell needs to complete gpudash's words."""

from __future__ import annotations

from gpudash import stdout
from gpudash.arguments import parser
from gpudash.errors import ExitStatus


def run(shell: str) -> int:
    """Print the completions for a shell."""
    import shtab

    stdout.write(shtab.complete(parser(), shell=shell).encode() + b"\n")
    return ExitStatus.OK
