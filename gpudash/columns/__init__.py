"""The columns of devices and processes, which table and screen walk; neither formats a value."""

from gpudash.columns.devices import DEVICE_COLUMNS
from gpudash.columns.processes import PROCESS_COLUMNS

__all__ = ["DEVICE_COLUMNS", "PROCESS_COLUMNS"]
