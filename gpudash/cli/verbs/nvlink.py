"""`gpudash nvlink`: the state of each NVLink, laid out as nvidia-smi does."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
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
    add = parser.add_argument
    add("-s", "--status", action="store_true", help="whether each is up, and its speed (default)")
    add("-c", "--capabilities", action="store_true", help="what it can do")
    add("-e", "--errorcounters", action="store_true", help="its errors")
    add("-l", "--link", type=int, metavar="N", help="only this link")
    add("-i", "--id", dest="gpu", metavar="ID", default=argparse.SUPPRESS, help="same as --gpu")
    add_shared(parser, "gpu", "timeout", "demo")


def run(options: argparse.Namespace) -> int:
    """Print a line for each link or counter; raises DriverError where a GPU is silent."""
    return with_source(_print_links, options, wanted=lambda: _wanted(options))


def _wanted(options: argparse.Namespace) -> frozenset[str]:
    from gpudash.analysis.selection import selector_fields

    return frozenset({"nvlinks"}) | selector_fields(gpu_selectors(options))


def _print_links(source: Source, options: argparse.Namespace) -> int:
    from gpudash.analysis.selection import select_existing
    from gpudash.output.smi_table import listing

    snapshot = select_existing(sample(source), gpu_selectors(options))
    sections = {
        _status: options.status or not (options.capabilities or options.errorcounters),
        _capabilities: options.capabilities,
        _errors: options.errorcounters,
    }
    for device, name in zip(snapshot.devices, listing(snapshot), strict=True):
        links = [each for each in device.nvlinks or () if options.link in (None, each.number)]
        if device.nvlinks:
            chosen = [lines for lines, is_chosen in sections.items() if is_chosen]
            found = (line for lines in chosen for link in links for line in lines(link))
            text = "".join(f"\t {line}\n" if line else "\n" for line in found)
            terminal.write(f"{name}\n{text}".encode())
    return exit_status(snapshot, with_topology=False)


def _status(link: NvLink) -> Iterator[str]:
    yield f"Link {link.number}: {_state(link)}"


def _state(link: NvLink) -> str:
    if link.is_active is None:
        return "<unknown>"
    if not link.is_active:
        return "<inactive>"
    if link.max_bytes_per_second is None:
        return "<active>"
    gigabytes = f"{link.max_bytes_per_second / 1e9:.3f}".rstrip("0").rstrip(".")
    return f"{gigabytes} GB/s"


def _capabilities(link: NvLink) -> Iterator[str]:
    if link.is_active is False:
        return
    for name, label in _CAPABILITIES.items():
        has = "N/A" if link.capabilities is None else str(name in link.capabilities).lower()
        yield f"Link {link.number}, {label}: {has}"


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


VERB = Verb("show the state of each NVLink", add_arguments, run)
