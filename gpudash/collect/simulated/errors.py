"""The exceptions of a simulated NVML, shaped like pynvml's: an error has its code as `value`."""

from __future__ import annotations


class NVMLError(Exception):
    """A call that NVML answered with a return value other than 0."""

    def __init__(self, value: int) -> None:
        super().__init__(f"NVML return value {value}")
        self.value = value


class NVMLLibraryMismatchError(Exception):
    """A call for which the driver's library is too old; never raised here."""
