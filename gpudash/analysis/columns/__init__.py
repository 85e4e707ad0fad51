"""The columns of devices and processes, which table and screen walk; neither formats a value."""

from gpudash.analysis.columns.devices import DEVICE_COLUMNS
from gpudash.analysis.columns.processes import PROCESS_COLUMNS

__all__ = ["DEVICE_COLUMNS", "PROCESS_COLUMNS"]
