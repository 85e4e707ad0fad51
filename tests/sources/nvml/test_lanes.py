"""Calls that are slow are asked more rarely."""

from __future__ import annotations

import time
from typing import Any

from gpudash.sources.nvml.paces import LONG_SECONDS
from tests.sources.nvml.tampering import Machine

CALL = "nvmlDeviceGetPowerUsage"


def test_a_slow_call_is_asked_every_ten_seconds_until_it_is_quick_again() -> None:
    machine = Machine("single")
    real, slow = machine.host.library.nvmlDeviceGetPowerUsage, [True]

    def answer(*arguments: Any) -> Any:
        if slow[0]:
            time.sleep(LONG_SECONDS * 1.2)
        return real(*arguments)

    machine.driver.replaced[CALL] = answer
    machine.read()
    machine.read()
    assert machine.driver.asked.count(CALL) == 2
    devices = [machine.read().devices[0] for _ in range(9)]
    assert machine.driver.asked.count(CALL) == 2
    assert all(device.power_usage_mw is not None for device in devices)
    slow[0] = False
    machine.read(2.0)
    machine.read()
    assert machine.driver.asked.count(CALL) == 4
