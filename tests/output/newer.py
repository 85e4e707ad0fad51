"""The fields of queries that nvidia-smi 535, whose output was captured, does not know yet."""

from gpudash.output.smi import GPU_FIELDS

_PREFIXES = (
    "c2c.",
    "clocks_event_reasons_counters.",
    "dramEncryption.",
    "fabric.c",
    "fabric.health.",
    "gpu.power.",
    "module.",
    "pci.baseClass",
    "pci.subClass",
    "platform.",
    "power_smoothing.",
    "remapped_rows.",
    "vgpu_device_capability.homogeneous",
    "vgpu_device_capability.mig",
)
_SRAM = ("parity", "secded", "l2", "sm", "mcu", "pcie", "other", "thresholdExceeded")
_NAMES = {
    "display_attached",
    "edpp_multiplier",
    "gpu_recovery_action",
    "hostname",
    "inforom.checksum_validation",
}

NEWER = {
    name
    for name in GPU_FIELDS
    if name in _NAMES or name.startswith(_PREFIXES) or name.rpartition(".sram.")[2] in _SRAM
}
_OLD_ROWS = {
    f"remapped_rows.{name}" for name in ("correctable", "uncorrectable", "pending", "failure")
}
"""What 535 knows in a query of its own alone."""


def newer(query: str) -> set[str]:
    """The names that 535 does not know in --query-gpu and the like."""
    return NEWER if query == "gpu" else NEWER - _OLD_ROWS
