from __future__ import annotations

from gpudash.analysis.history.metrics import DEVICE_METRICS
from gpudash.model.device import Device


def test_the_metrics_of_devices_are_fields_of_devices() -> None:
    assert set(DEVICE_METRICS) <= set(Device.__struct_fields__)
