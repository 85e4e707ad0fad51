"""nvidia-smi's selective queries as CSV: its names, aliases, units and `[N/A]`."""

from __future__ import annotations

from gpudash.output.smi.csv import Csv, listing, query
from gpudash.output.smi.fields import APP_FIELDS, GPU_FIELDS, Field

__all__ = ["APP_FIELDS", "GPU_FIELDS", "Csv", "Field", "listing", "query"]
