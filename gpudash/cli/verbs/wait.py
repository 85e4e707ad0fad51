"""`gpudash wait`: like `gpudash pick`, once there are enough free GPUs."""

from __future__ import annotations

import argparse

from gpudash.cli.values import span
from gpudash.cli.verbs import Verb, pick


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `gpudash wait` takes."""
    pick.add_choice(parser)
    text = "give up after this time: 2h"
    parser.add_argument("--timeout", type=span, dest="give_up", metavar="T", help=text)


def run(options: argparse.Namespace) -> int:
    """Print GPUs that meet the request as soon as there are enough; 75 after the timeout."""
    return pick.print_free(options, timeout=options.give_up)


VERB = Verb("print free GPUs as soon as there are enough", add_arguments, run)
