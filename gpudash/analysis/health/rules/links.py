"""Links below their capacity: PCIe, NVLink, and GPUs of one job without P2P."""

from __future__ import annotations

from collections.abc import Iterator

from gpudash.analysis.health.context import RuleContext
from gpudash.analysis.health.rule import Symptom, about, check, number, rule
from gpudash.analysis.nvlinks import nvlinks_down
from gpudash.model.device import Device
from gpudash.model.snapshot import Topology

NVLINK_DOWN = rule(
    210,
    "nvlink-down",
    "fewer NVLinks up than before, than on others of its kind, or than it has behind NVSwitches",
    appears_after_seconds=5,
    goes_after_seconds=10,
)
NVLINK_ERRORS = rule(
    220,
    "nvlink-errors",
    "an error counter of an NVLink rises; a warning from 1 a second, or if a link restarts",
    goes_after_seconds=60,
)
# Generation and width are read every ten seconds: two readings under load prove it.
PCIE_REDUCED = rule(
    240,
    "pcie-link-reduced",
    "fewer PCIe lanes, or a lower generation, than it could have, while it works; info only if all "
    "of its kind have as few lanes",
    appears_after_seconds=21,
    goes_after_seconds=21,
)
PCIE_REPLAYS = rule(
    250,
    "pcie-replays",
    "many packets are sent again over PCIe",
    appears_after_seconds=21,
    goes_after_seconds=60,
)
NO_P2P = rule(290, "p2p-missing", "GPUs of one process cannot reach each other's memory")

_LOAD_PERCENT = 20
_DEEPEST_LOADED_STATE = 2
"""In deeper states, the link is slow on purpose."""
_MANY_REPLAYS = 1.0
_MANY_ERRORS = 1.0
_RATES = (
    "nvlink_crc_errors_per_second",
    "nvlink_replays_per_second",
    "nvlink_recoveries_per_second",
    "nvlink_receive_errors_per_second",
)
_GRANTED = frozenset({"X", "OK", None})
_LANES = "gpudash nvlink names the links; a reset or a reseat of the board may help."


@check
def nvlinks(context: RuleContext) -> Iterator[Symptom]:
    """GPUs with fewer NVLinks than before or than their like, or whose links have errors."""
    down = nvlinks_down(context.gpus, context.snapshot.topology, context.activity.max_nvlinks)
    for gpu, expected in down:
        counts = f"{gpu.nvlink_count} of {expected} NVLinks up"
        fields = "nvlink_count", "nvlink_total_count", "nvlink_inactive_links"
        yield about(context, gpu, NVLINK_DOWN, "warn", f"[has|have] {counts}", _LANES, *fields)
    for gpu in context.gpus:
        if gpu.nvlink_erring_links:
            yield _erring(context, gpu)


def _erring(context: RuleContext, gpu: Device) -> Symptom:
    """Return the symptom of link errors: occasional ones are normal, many or a restart are not."""
    rates = [rate for name in _RATES if (rate := getattr(gpu, name)) is not None]
    is_few = bool(rates) and max(rates) < _MANY_ERRORS and not gpu.nvlink_recoveries_per_second
    fields = "nvlink_erring_links", *_RATES
    if is_few:
        fact = "[has|have] occasional NVLink errors"
        advice = "The links correct them; only many are a problem."
        return about(context, gpu, NVLINK_ERRORS, "info", fact, advice, *fields)
    return about(context, gpu, NVLINK_ERRORS, "warn", "[has|have] NVLink errors", _LANES, *fields)


@check
def pcie(context: RuleContext) -> Iterator[Symptom]:
    """GPUs whose PCIe link is below its maximum while they work, or retransmits often."""
    for gpu in context.gpus:
        state = gpu.performance_state
        works = (gpu.gpu_utilization_percent or 0) >= _LOAD_PERCENT
        is_awake = state is None or state <= _DEEPEST_LOADED_STATE
        if works and is_awake and not gpu.unified_memory and not context.is_only_started(gpu):
            yield from _reduced(context, gpu)
        if (gpu.pcie_replays_per_second or 0) >= _MANY_REPLAYS:
            fact = "[retransmits|retransmit] many PCIe packets"
            advice = "Reseat it or its riser; a bad link costs speed before it fails."
            counts = "pcie_replays_per_second", "pcie_replay_count"
            yield about(context, gpu, PCIE_REPLAYS, "warn", fact, advice, *counts)


def _reduced(context: RuleContext, gpu: Device) -> Iterator[Symptom]:
    generation, highest = gpu.pcie_link_generation, gpu.max_pcie_link_generation
    lanes = _lanes(gpu)
    parts = [lanes] if lanes else []
    if generation and highest and generation < highest:
        parts.append(f"at PCIe generation {generation} of {highest}")
    if not parts:
        return
    words = " and ".join(parts)
    alike = [each for each in context.gpus if each.name == gpu.name and each.key != gpu.key]
    # Idle GPUs lower the generation of their link.
    is_design = parts == [lanes] and {*map(_lanes, alike)} == {lanes}
    advice = "Reseat it or its riser, and check the BIOS settings of its slot"
    if is_design:
        advice = "All of its kind here have as few: the slots may provide no more"
    yield about(
        context,
        gpu,
        PCIE_REDUCED,
        "info" if is_design else "warn",
        f"[works|work] {words}",
        f"{advice}; copies from and to the host are that much slower.",
        "gpu_utilization_percent",
        "pcie_link_generation",
        "max_pcie_link_generation",
        "pcie_link_width",
        "max_pcie_link_width",
    )


def _lanes(gpu: Device) -> str | None:
    """Return how many of its PCIe lanes a GPU has, None if all, or if unknown."""
    width, widest = gpu.pcie_link_width, gpu.max_pcie_link_width
    return f"on {width} of {widest} PCIe lanes" if width and widest and width < widest else None


@check
class MissingP2PCheck:
    """Processes on GPUs without mutual memory access; recomputed when either changes."""

    def __init__(self) -> None:
        self._known: tuple[Topology | None, object] = None, ()
        self._found: list[Symptom] = []

    def __call__(self, context: RuleContext) -> list[Symptom]:
        """Return one symptom for the processes of one name and owner on the same GPUs."""
        several = [each for each in context.snapshot.processes if len(each.devices) > 1]
        topology = context.snapshot.topology
        if topology is None or not several:
            return []
        users = [
            (p.key, p.name, p.username, [(s.uuid, s.type) for s in p.devices]) for p in several
        ]
        if self._known[0] is not topology or self._known[1] != users:
            found = list(self._symptoms(context)) if _denies_p2p(topology) else []
            self._known, self._found = (topology, users), found
        return self._found

    def _symptoms(self, context: RuleContext) -> Iterator[Symptom]:
        gpus = {gpu.index: gpu for gpu in context.gpus}
        # Imported here: few hosts need it, and every start would pay for it.
        from gpudash.analysis.link_warnings import missing_p2p

        for missing in missing_p2p(context.snapshot):
            yield Symptom(
                NO_P2P,
                tuple(missing.pids),
                "info",
                "NCCL copies through host memory instead; keep a job inside an island where "
                "that matters. gpudash topo --p2p shows all pairs.",
                sentence=missing.sentence,
                devices=tuple(gpus[index] for index in missing.gpus if index in gpus),
                evidence=(number("pairs_without_p2p_count", missing.pair_count),),
                pids=tuple(missing.pids),
            )


def _denies_p2p(topology: Topology) -> bool:
    """Whether any pair is known to lack P2P: rare, and the rest takes a while."""
    matrices = topology.p2p_read, topology.p2p_write
    return any(not _GRANTED.issuperset(row) for matrix in matrices for row in matrix)
