"""nvidia-smi's selective queries as CSV: its names, aliases, units and `[N/A]`."""

from __future__ import annotations

from gpudash.output.smi.csv import Csv, query
from gpudash.output.smi.fields import APP_FIELDS, GPU_FIELDS, Field
from gpudash.output.smi.listing import listing

__all__ = ["APP_FIELDS", "GPU_FIELDS", "Csv", "Field", "listing", "query"]
