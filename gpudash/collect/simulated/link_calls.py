"""The NVML calls about what lies between GPUs: PCIe levels, NVLinks, peer access, affinities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpudash.collect.simulated.constants import CONSTANTS
from gpudash.collect.simulated.errors import NVMLError
from gpudash.collect.simulated.gpu import Gpu
from gpudash.collect.simulated.results import Record, pick
from gpudash.collect.simulated.scene import NvLink

_C = CONSTANTS
_OK = _C["NVML_P2P_STATUS_OK"]
_CHIPSET = _C["NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED"]
_BOARD = _C["NVML_P2P_STATUS_GPU_NOT_SUPPORTED"]
_NOT = _C["NVML_P2P_STATUS_NOT_SUPPORTED"]
_WORD = 64


def common_ancestor(one: Gpu, now: float, other: Gpu) -> int:
    """Return how far up the PCIe tree two GPUs meet."""
    here, there = one.card.place, other.card.place
    if one is other:
        return _C["NVML_TOPOLOGY_INTERNAL"]
    if here == there:
        return _C["NVML_TOPOLOGY_SINGLE"]
    if here[:2] == there[:2]:
        return _C["NVML_TOPOLOGY_MULTIPLE"]
    return _C["NVML_TOPOLOGY_NODE" if here[0] == there[0] else "NVML_TOPOLOGY_SYSTEM"]


def peer_status(one: Gpu, now: float, other: Gpu, capability: int) -> int:
    """Return whether one GPU may read, write, link to, or do atomics on another.

    NVLink allows all; PCIe allows reading and writing below one root complex, on boards whose
    driver does not refuse it.
    """
    if one.board.nvlink and other.board.nvlink:
        return pick((_OK, _OK, _OK, _OK, _NOT), capability)
    reach = _OK if one.card.place[:2] == other.card.place[:2] else _CHIPSET
    if not one.board.peer_access:
        reach = _BOARD
    return pick((reach, reach, _NOT, _NOT, reach), capability)


def _link(gpu: Gpu, number: int) -> NvLink | None:
    """Return the board's links if that one exists, None if the board has none.

    Raises NVMLError INVALID_ARGUMENT past the last link.
    """
    link = gpu.board.nvlink
    if link is not None and not 0 <= number < link.count:
        raise NVMLError(_C["NVML_ERROR_INVALID_ARGUMENT"])
    return link


def _remote_pci(gpu: Gpu, now: float, number: int) -> Record | None:
    """Return the address that stands for an NVSwitch: all ones."""
    if _link(gpu, number) is None:
        return None
    address = "FFFFFFFF:FF:FF.0"
    return Record(domain=0xFFFFFFFF, bus=0xFF, device=0xFF, busId=address, busIdLegacy=address[4:])


def _when_linked(value: Callable[[NvLink], int]) -> Callable[..., int | None]:
    """Return a call that tells one fact about a link."""

    def answer(gpu: Gpu, now: float, number: int, *_: int) -> int | None:
        link = _link(gpu, number)
        return None if link is None else value(link)

    return answer


def _words(members: range, count: int) -> list[int]:
    """Return a set of small numbers as `count` words of 64 bits."""
    mask = sum(1 << member for member in members)
    return [mask >> (_WORD * word) & (1 << _WORD) - 1 for word in range(count)]


def _cpus(gpu: Gpu, now: float, count: int, *_: int) -> list[int]:
    per_socket = gpu.scene.cpus_per_socket
    first = gpu.card.place[0] * per_socket
    return _words(range(first, first + per_socket), count)


def _nodes(gpu: Gpu, now: float, count: int, *_: int) -> list[int]:
    socket = gpu.card.place[0]
    return _words(range(socket, socket + 1), count)


LINK_CALLS: dict[str, Callable[..., Any]] = {
    "nvmlDeviceGetTopologyCommonAncestor": common_ancestor,
    "nvmlDeviceGetP2PStatus": peer_status,
    "nvmlDeviceGetCpuAffinity": _cpus,
    "nvmlDeviceGetCpuAffinityWithinScope": _cpus,
    "nvmlDeviceGetMemoryAffinity": _nodes,
    "nvmlDeviceGetNvLinkState": _when_linked(lambda link: 1),
    "nvmlDeviceGetNvLinkVersion": _when_linked(lambda link: link.version),
    "nvmlDeviceGetNvLinkRemoteDeviceType": _when_linked(
        lambda link: _C["NVML_NVLINK_DEVICE_TYPE_SWITCH"]
    ),
    "nvmlDeviceGetNvLinkErrorCounter": _when_linked(lambda link: 0),
    "nvmlDeviceGetNvLinkRemotePciInfo": _remote_pci,
}
"""Calls about links, on the handle of a whole GPU; a second handle arrives as its GPU."""
