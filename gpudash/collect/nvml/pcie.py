"""PCIe traffic by the call that measures it for 20 ms a direction, for whoever asks for it."""

from __future__ import annotations

from typing import Any

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.library import Library
from gpudash.collect.nvml.paces import ASKED_SECONDS, Pace
from gpudash.collect.nvml.poll import DeviceLost
from gpudash.collect.nvml.values import within

_KB = 1000
_SENT, _RECEIVED = 0, 1
_FIELDS = {_SENT: "pcie_tx_bytes_per_second", _RECEIVED: "pcie_rx_bytes_per_second"}
_plausible = within(0, 10**9)


class PcieThroughput:
    """The two rates of one GPU as they were measured last; a GPU that cannot is asked once."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._pace = Pace(ASKED_SECONDS)
        self._measured: dict[str, int | None] = {}
        self._has_call = True

    def missing(self, handle: Any, told: dict[str, Any], now: float) -> dict[str, int | None]:
        """Return the rates if nothing else has `told` them.

        Raises DeviceLost when the device says that it is gone.
        """
        if any(told.get(field) is not None for field in _FIELDS.values()):
            self._measured = {}
            return {}
        if self._has_call and self._pace.is_due(now):
            self._measured = {field: self._ask(handle, which) for which, field in _FIELDS.items()}
        return self._measured

    def _ask(self, handle: Any, which: int) -> int | None:
        value, code = self._library.ask("nvmlDeviceGetPcieThroughput", handle, which)
        if code in codes.DEAD:
            raise DeviceLost(code)
        self._has_call = self._has_call and code not in codes.PERMANENT
        kilobytes: int | None = None if code else _plausible(value)
        return None if kilobytes is None else kilobytes * _KB
