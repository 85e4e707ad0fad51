"""How the GPUs are connected."""

from __future__ import annotations

from collections.abc import Set
from functools import partial
from typing import Annotated, Literal

from msgspec import Struct

from gpudash.model.fields import Group, metric
from gpudash.model.units import Unit

P2PStatus = Literal["X", "OK", "CNS", "GNS", "TNS", "DR", "NS", "U"]

_topology = partial(metric, Group.TOPOLOGY)


class Topology(Struct, frozen=True, kw_only=True):
    """How the GPUs are connected: matrices and lists in the order of `uuids`."""

    # fmt: off
    uuids: Annotated[tuple[str, ...], _topology(Unit.NONE,
        "The GPUs, in the order of their indices.")]
    indices: Annotated[tuple[int, ...], _topology(Unit.NONE, "Their NVML indices, for headings.")]
    links: Annotated[tuple[tuple[str | None, ...], ...], _topology(Unit.NONE,
        "Link of each pair: X self, NV# that many NVLinks, PSB, PIX, PXB, PHB, NODE, SYS.",
        nvml="nvmlDeviceGetTopologyCommonAncestor, nvmlDeviceGetNvLinkRemotePciInfo_v2")]
    p2p_read: Annotated[tuple[tuple[P2PStatus | None, ...], ...], _topology(Unit.NONE,
        "Whether the row's GPU may read the column's memory.", nvml="nvmlDeviceGetP2PStatus")]
    p2p_write: Annotated[tuple[tuple[P2PStatus | None, ...], ...], _topology(Unit.NONE,
        "Whether the row's GPU may write the column's memory.", nvml="nvmlDeviceGetP2PStatus")]
    p2p_atomics: Annotated[tuple[tuple[P2PStatus | None, ...], ...], _topology(Unit.NONE,
        "Whether atomic operations reach from row to column.", nvml="nvmlDeviceGetP2PStatus")]
    cpu_affinity: Annotated[tuple[str | None, ...], _topology(Unit.NONE,
        "CPUs next to each GPU, as a list of ranges.", nvml="nvmlDeviceGetCpuAffinity")]
    numa_affinity: Annotated[tuple[str | None, ...], _topology(Unit.NONE,
        "Host NUMA nodes next to each GPU, as a list of ranges.",
        nvml="nvmlDeviceGetMemoryAffinity")]
    # fmt: on

    def among(self, uuids: Set[str]) -> Topology | None:
        """Return how these GPUs are connected, None if none of them is known here."""
        kept = [place for place, uuid in enumerate(self.uuids) if uuid in uuids]
        if len(kept) in (0, len(self.uuids)):
            return self if kept else None
        return Topology(
            uuids=tuple(self.uuids[i] for i in kept),
            indices=tuple(self.indices[i] for i in kept),
            links=tuple(tuple(self.links[i][j] for j in kept) for i in kept),
            p2p_read=tuple(tuple(self.p2p_read[i][j] for j in kept) for i in kept),
            p2p_write=tuple(tuple(self.p2p_write[i][j] for j in kept) for i in kept),
            p2p_atomics=tuple(tuple(self.p2p_atomics[i][j] for j in kept) for i in kept),
            cpu_affinity=tuple(self.cpu_affinity[i] for i in kept),
            numa_affinity=tuple(self.numa_affinity[i] for i in kept),
        )

    def peer_access(self, row: int, column: int) -> bool | None:
        """Whether frameworks would print Y for the pair: itself, or reading and writing both OK."""
        if row == column:
            return True
        statuses = self.p2p_read[row][column], self.p2p_write[row][column]
        return None if None in statuses else statuses == ("OK", "OK")
