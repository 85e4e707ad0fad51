"""`gpudash smi`: nvidia-smi's own command line."""

from __future__ import annotations

import argparse

from gpudash.cli.arguments import add_shared
from gpudash.cli.parser import Parser
from gpudash.cli.verbs import Verb


def add_arguments(parser: Parser) -> None:
    """Declare that all words are nvidia-smi's."""
    parser.takes_words = True
    parser.usage = "gpudash smi [what nvidia-smi takes]"
    add_shared(parser, "demo", demo="before smi: simulate a host")


def run(options: argparse.Namespace) -> int:
    """Do what nvidia-smi does."""
    from gpudash.cli import smi

    return smi.run(options.words, options.demo)


VERB = Verb(
    "answer as nvidia-smi does: its options, output, messages and exit statuses",
    add_arguments,
    run,
    "So does gpudash where it is called nvidia-smi: see gpudash install-nvidia-smi. What changes "
    "a GPU is handed to the next nvidia-smi in PATH.",
)
