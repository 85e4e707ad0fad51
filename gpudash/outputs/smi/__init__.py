"""nvidia-smi's selective queries as CSV: its names, aliases, units and `[N/A]`."""

from __future__ import annotations

from gpudash.outputs.smi.csv import Csv, query
from gpudash.outputs.smi.fields import APP_FIELDS, GPU_FIELDS, Field
from gpudash.outputs.smi.listing import listing

__all__ = ["APP_FIELDS", "GPU_FIELDS", "Csv", "Field", "listing", "query"]
