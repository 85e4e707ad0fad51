"""NVIDIA's management library, read truthfully: the only importer of pynvml."""

from __future__ import annotations

from gpudash.collect.nvml.bus import Bus, Identity, PciBus
from gpudash.collect.nvml.library import Library, load
from gpudash.collect.nvml.reader import NvmlReader, Reading
from gpudash.collect.nvml.versions import Versions
from gpudash.collect.nvml.worker import Crew

__all__ = [
    "Bus",
    "Crew",
    "Identity",
    "Library",
    "NvmlReader",
    "PciBus",
    "Reading",
    "Versions",
    "load",
]
