"""A host that was watched for a while, for tests of what shows the past."""

from collections.abc import Iterable
from datetime import timedelta

from gpudash.analysis.history import History
from gpudash.model.snapshot import Snapshot
from tests.factories import make_device, make_host, make_snapshot, received

START = 100_000.0


def sample(second: float, utilizations: Iterable[int | None], **overrides: object) -> Snapshot:
    """A host of which every GPU reads what is given, so many seconds after START."""
    devices = tuple(
        make_device(index=index, gpu_utilization_percent=value)
        for index, value in enumerate(utilizations)
    )
    taken_at = make_snapshot().taken_at + timedelta(seconds=second)
    host = make_host(uptime_seconds=START + second)
    fields = {"taken_at": taken_at, "host": host, "devices": devices, **overrides}
    return make_snapshot(len(devices), **fields)


def watched(samples: Iterable[Snapshot]) -> History:
    history = History()
    for snapshot in samples:
        history.push(*received(snapshot))
    return history
