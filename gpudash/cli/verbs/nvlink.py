"""`gpudash nvlink`: the state of each NVLink, laid out as nvidia-smi does."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from gpudash.cli.arguments import add_shared
from gpudash.cli.oneshot import exit_status, sample, with_source
from gpudash.cli.options import gpu_selectors
from gpudash.cli.verbs import Verb
from gpudash.system import terminal

if TYPE_CHECKING:
    from gpudash.collect.source import Source
    from gpudash.model.records import NvLink

_CAPABILITIES = {
    "p2p": "P2P is supported",
    "system-memory": "Access to system memory supported",
    "p2p-atomics": "P2P atomics supported",
    "system-memory-atomics": "System memory atomics supported",
    "sli": "SLI is supported",
    "link": "Link is supported",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `gpudash nvlink` takes."""
    add = parser.add_mutually_exclusive_group().add_argument
    add("-s", "--status", action="store_true", help="whether each is up, and its speed (default)")
    add("-e", "--errorcounters", action="store_true", help="its errors")
    add("-c", "--capabilities", action="store_true", help="what it can do")
    parser.add_argument("-l", "--link", type=int, metavar="N", help="only this link")
    parser.add_argument(
        "-i", "--id", dest="gpu", metavar="ID", default=argparse.SUPPRESS, help="same as --gpu"
    )
    add_shared(parser, "gpu", "timeout", "demo")


def run(options: argparse.Namespace) -> int:
    """Print a line for each link or counter; raises DriverError where a GPU is silent."""
    return with_source(_print_links, options, wanted=lambda: frozenset({"nvlinks"}))


def _print_links(source: Source, options: argparse.Namespace) -> int:
    from gpudash.analysis.selection import select
    from gpudash.output.smi import listing

    snapshot = select(sample(source), gpu_selectors(options))
    lines = _errors if options.errorcounters else _capabilities if options.capabilities else _status
    for device, name in zip(snapshot.devices, listing(snapshot), strict=True):
        links = [each for each in device.nvlinks or () if options.link in (None, each.number)]
        if device.nvlinks:
            text = "".join(
                f"\t {line}\n" if line else "\n" for link in links for line in lines(link)
            )
            terminal.write(f"{name}\n{text}".encode())
    return exit_status(snapshot, with_topology=False)


Lines = Callable[["NvLink"], Iterator[str]]


def _status(link: NvLink) -> Iterator[str]:
    speed = link.max_bytes_per_second
    known = "<unknown>" if link.is_active is None else "<active>" if speed is None else ""
    gigabytes = f"{(speed or 0) / 1e9:.3f}".rstrip("0").rstrip(".")
    state = "<inactive>" if link.is_active is False else known or f"{gigabytes} GB/s"
    yield f"Link {link.number}: {state}"


def _errors(link: NvLink) -> Iterator[str]:
    if link.is_active is False:
        return
    counters = {
        "Replay": link.replay_count,
        "Recovery": link.recovery_count,
        "CRC": link.crc_error_count,
    }
    for name, number in counters.items():
        yield f"Link {link.number}: {name} Errors: {'N/A' if number is None else number}"
    yield ""


def _capabilities(link: NvLink) -> Iterator[str]:
    if link.is_active is False:
        return
    for name, label in _CAPABILITIES.items():
        has = "N/A" if link.capabilities is None else str(name in link.capabilities).lower()
        yield f"Link {link.number}, {label}: {has}"


VERB = Verb("show the state of each NVLink", add_arguments, run)
