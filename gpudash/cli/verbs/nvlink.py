"""`gpudash nvlink`: the state of each NVLink, laid out as nvidia-smi does."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from gpudash.cli.arguments import add_shared
from gpudash.cli.oneshot import chosen, exit_status, sample, with_source
from gpudash.cli.verbs import Verb
from gpudash.system import terminal

if TYPE_CHECKING:
    from gpudash.collect.source import HostSource
    from gpudash.model.records import NvLink

    Section = Callable[[Sequence[NvLink], int | None], Iterator[str]]
    """Yields lines about a GPU's links, or about the one with this number."""

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
    add("-p", "--pcibusid", action="store_true", help="where it leads, by PCI address")
    add("-R", "--remotelinkinfo", action="store_true", help="the same, with the link there")
    text = "KiB that it carried since the driver was loaded: d payload, r with the protocol"
    add("-gt", "--getthroughput", dest="traffic", choices=("d", "r"), help=text)
    add("-l", "--link", type=int, metavar="N", help="only this link")
    add("-i", "--id", dest="gpu", metavar="ID", default=argparse.SUPPRESS, help="same as --gpu")
    add_shared(parser, "gpu", "timeout", "demo")


def run(options: argparse.Namespace) -> int:
    """Print a line for each link or counter; raises DriverError if a GPU is silent."""
    return with_source(_print_links, options, wanted=lambda: {"nvlinks"})


def _print_links(source: HostSource, options: argparse.Namespace) -> int:
    from gpudash.output.smi_table import listing

    snapshot = chosen(sample(source), options)
    sections: dict[Section, bool] = {
        _status: options.status,
        _capabilities: options.capabilities,
        _addresses: options.pcibusid,
        _remote_links: options.remotelinkinfo,
        _errors: options.errorcounters,
        partial(_traffic, options.traffic): options.traffic is not None,
    }
    wanted = [section for section, is_wanted in sections.items() if is_wanted] or [_status]
    for device, name in zip(snapshot.devices, listing(snapshot), strict=True):
        if device.nvlinks:
            found = (line for section in wanted for line in section(device.nvlinks, options.link))
            terminal.write_lines((name, *found))
    return exit_status(snapshot, with_topology=False)


def _of_active(
    links: Sequence[NvLink], only: int | None, lines: Callable[[NvLink], Iterable[str]]
) -> Iterator[str]:
    """Yield the lines of each link that is up, or of the requested one."""
    for link in links:
        if link.is_active is not False and only in (None, link.number):
            yield from (f"\t {line}" for line in lines(link))


def _status(links: Sequence[NvLink], only: int | None) -> Iterator[str]:
    if only is None:
        yield from (f"\t Link {link.number}: {_state(link)}" for link in links)
    elif not _is_up(links, only):
        yield f"NVML: Unable to retrieve NVLink information for link {only} - inActive"
    else:
        yield from _of_active(links, only, lambda link: [f"Link {only}: {_state(link)}"])


def _is_up(links: Sequence[NvLink], number: int) -> bool:
    return any(link.number == number and link.is_active is not False for link in links)


def _state(link: NvLink) -> str:
    if link.is_active is None:
        return "<unknown>"
    if not link.is_active:
        return "<inactive>"
    if link.max_bytes_per_second is None:
        return "<active>"
    gigabytes = f"{link.max_bytes_per_second / 1e9:.3f}".rstrip("0").rstrip(".")
    return f"{gigabytes} GB/s"


def _capabilities(links: Sequence[NvLink], only: int | None) -> Iterator[str]:
    def lines(link: NvLink) -> Iterator[str]:
        for name, label in _CAPABILITIES.items():
            has = "N/A" if link.capabilities is None else str(name in link.capabilities).lower()
            yield f"Link {link.number}, {label}: {has}"

    return _of_active(links, only, lines)


def _addresses(links: Sequence[NvLink], only: int | None) -> Iterator[str]:
    return _of_active(
        links, only, lambda link: [f"Link {link.number}: {_known(link.remote_pci_bus_id)}"]
    )


def _remote_links(links: Sequence[NvLink], only: int | None) -> Iterator[str]:
    def lines(link: NvLink) -> Iterator[str]:
        there = f"{_known(link.remote_pci_bus_id)}: Link {_known(link.remote_link)}"
        yield f"Link {link.number}: Remote Device {there}"

    return _of_active(links, only, lines)


def _errors(links: Sequence[NvLink], only: int | None) -> Iterator[str]:
    def lines(link: NvLink) -> Iterator[str]:
        counters = {
            "Replay": link.replay_count,
            "Recovery": link.recovery_count,
            "CRC": link.crc_error_count,
        }
        for name, number in counters.items():
            yield f"Link {link.number}: {name} Errors: {_known(number)}"

    if only is not None and not _is_up(links, only):
        yield f"NVML: Unable to retrieve NVLink errors for link {only} - inActive"
    for link in links:
        of_link = list(_of_active([link], only, lines))
        yield from (*of_link, "") if of_link else ()


def _traffic(kind: str, links: Sequence[NvLink], only: int | None) -> Iterator[str]:
    def lines(link: NvLink) -> Iterator[str]:
        is_data = kind == "d"
        word = "Data" if is_data else "Raw"
        sent = link.data_tx_kib if is_data else link.raw_tx_kib
        received = link.data_rx_kib if is_data else link.raw_rx_kib
        yield f"Link {link.number}: {word} Tx: {_known(sent)} KiB"
        yield f"Link {link.number}: {word} Rx: {_known(received)} KiB"

    return _of_active(links, only, lines)


def _known(value: object) -> object:
    return "N/A" if value is None else value


VERB = Verb("show the state of each NVLink", add_arguments, run)
