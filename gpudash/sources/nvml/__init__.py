"""NVIDIA's management library, read truthfully: the only importer of pynvml."""

from __future__ import annotations

from gpudash.sources.nvml.bus import Bus, Identity, PciBus
from gpudash.sources.nvml.crew import Crew
from gpudash.sources.nvml.library import Library, load
from gpudash.sources.nvml.reader import NvmlReader, Reading
from gpudash.sources.nvml.versions import Versions

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
