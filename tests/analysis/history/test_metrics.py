from gpudash.analysis.history.metrics import device_metrics, device_row
from gpudash.model.device import device_fields
from tests.factories import make_device


def test_every_declared_chart_is_kept_and_nothing_else() -> None:
    assert set(device_metrics()) == {
        field.name for field in device_fields().values() if field.chart
    }
    assert len(device_row(make_device())) == len(device_metrics())
