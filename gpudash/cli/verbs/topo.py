"""`gpudash topo`: the connections of the GPUs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudash.cli.arguments import add_shared
from gpudash.cli.oneshot import chosen, exit_status, sample, with_source, write_json
from gpudash.cli.options import gpu_selectors, has_color
from gpudash.cli.values import letters
from gpudash.cli.verbs import Verb
from gpudash.model.errors import UsageError
from gpudash.system import terminal

if TYPE_CHECKING:
    from gpudash.collect.source import HostSource
    from gpudash.model.snapshot import Snapshot, Topology


_CAPABILITIES = {"r": "read", "w": "write", "n": "use NVLink", "a": "do atomics", "p": "use PCIe"}
_OF_GPUS = {"level": 1, "path": 2, "cpu_nodes": 1, "memory_nodes": 1, "own_node": 1}
"""How many GPUs of -i each option needs."""
_ONE_GPU = "; with -i and one GPU"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `gpudash topo` takes."""
    add = parser.add_argument
    add("--p2p", action="store_true", help="also show peer access between them")
    text = "print the links as nvidia-smi does, with the network cards"
    add("-m", "--matrix", action="store_true", help=text)
    text = "the same over PCIe alone"
    add("-mp", "--matrix_pci", dest="pci", action="store_true", help=text)
    add(
        "-p2p",
        "--p2pstatus",
        dest="capability",
        type=letters("".join(_CAPABILITIES)),
        metavar="r|w|n|a|p",
        help=f"print, as there, whether pairs can: {', '.join(_CAPABILITIES.values())}; of several "
        "letters the first",
    )
    add("-c", "--cpu", type=int, metavar="N", help="print the GPUs beside a CPU")
    text = f"print the GPUs at a distance, 0 the same board to 5 another socket{_ONE_GPU}"
    add("-n", "--nearest_gpus", dest="level", choices=tuple("012345"), metavar="N", help=text)
    text = "print how one GPU reaches another; with -i and two GPUs"
    add("-p", "--gpu_path", dest="path", action="store_true", help=text)
    for short, name, dest, of in (
        ("-C", "--get-numa-id-of-nearby-cpu", "cpu_nodes", "the CPUs beside a GPU"),
        ("-M", "--get-numa-id-of-nearby-mem", "memory_nodes", "the memory beside a GPU"),
        ("-gnid", "--gpu-numa-id", "own_node", "a GPU's own memory"),
    ):
        text = f"print the NUMA node of {of}{_ONE_GPU}"
        add(short, name, dest=dest, action="store_true", help=text)
    add("-i", "--id", dest="gpu", metavar="LIST", default=argparse.SUPPRESS, help="same as --gpu")
    text = "read a recording instead"
    add_shared(parser, "json", "gpu", "timeout", "demo", "replay", "at", replay=text)


def run(options: argparse.Namespace) -> int:
    """Print the matrix with its legend, or as JSON; raises DriverError if a GPU is silent."""
    given = vars(options)
    asked = [name for name in _OF_GPUS if given[name] is not None and given[name] is not False]
    forms = asked or options.matrix or options.pci or options.capability or options.cpu is not None
    if not forms:
        return with_source(_print_topology, options, whole=True)
    return with_source(
        lambda source, _: _print_forms(source, options, asked),
        options,
        whole=True,
        wanted=lambda: _wanted(options),
    )


def _wanted(options: argparse.Namespace) -> set[str]:
    more = ("p2p_nvlink",) if (options.capability or "")[:1] in ("n", "p") else ()
    return {"pci_links", "nvlink_count", *more}


def _print_topology(source: HostSource, options: argparse.Namespace) -> int:
    from gpudash.analysis.selection import select

    snapshot = select(sample(source), gpu_selectors(options))
    if options.json:
        write_json(snapshot.topology)
    else:
        from gpudash.output import matrix

        room = terminal.width() if terminal.is_terminal() else None
        text = matrix.render(snapshot, p2p=options.p2p, color=has_color(), room=room)
        terminal.write_text(text)
    return exit_status(snapshot)


def _print_forms(source: HostSource, options: argparse.Namespace, asked: list[str]) -> int:
    """Print the forms of nvidia-smi's options; raises UsageError for a wrong number of GPUs."""
    from gpudash.analysis.link_warnings import no_topology

    snapshot = sample(source)
    gpus = chosen(snapshot, options)
    whole = snapshot if asked else gpus
    status = exit_status(gpus)
    if whole.topology is None:
        terminal.write_text(f"{no_topology(whole)}\n")
    else:
        terminal.write_text("".join(_forms(options, whole.topology, gpus, asked)))
    return status


def _forms(
    options: argparse.Namespace, topology: Topology, gpus: Snapshot, asked: list[str]
) -> Iterator[str]:
    """Yield them in nvidia-smi's order."""
    from gpudash.output import smi_topo

    indices = [device.index for device in gpus.devices if device.index in topology.indices]
    for name in asked:
        if len(indices) != _OF_GPUS[name]:
            raise UsageError(f"{_OF_GPUS[name]} GPU in -i is what this takes, not {len(indices)}")
    if options.capability:
        yield smi_topo.capability(topology, options.capability[0])
    if options.cpu is not None:
        yield smi_topo.near_cpu(topology, options.cpu)
    if options.level is not None:
        yield smi_topo.nearest(topology, indices[0], int(options.level))
    if options.path:
        yield smi_topo.path(topology, *indices)
    if options.cpu_nodes:
        yield smi_topo.numa_nodes(topology, indices[0], "CPU")
    if options.memory_nodes:
        yield smi_topo.numa_nodes(topology, indices[0], "memory")
    if options.own_node:
        yield smi_topo.own_numa_node(topology, indices[0])
    if options.matrix:
        yield smi_topo.matrix(topology)
    if options.pci:
        yield smi_topo.matrix(topology, pci_only=True)


VERB = Verb("show how the GPUs are connected", add_arguments, run)
