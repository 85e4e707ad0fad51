"""GPUs that are leased and not used."""

from typing import Any

from gpudash.analysis.health.engine import findings_by_device
from gpudash.analysis.health.status import status
from gpudash.analysis.usage import uses
from gpudash.model.process import Lease
from gpudash.model.snapshot import Snapshot
from tests.analysis.health.examined import Watched, found, host, rules
from tests.factories import gpu_uuid, make_device


def leased(*indices: int, **overrides: Any) -> Snapshot:
    fields: dict[str, Any] = {"pid": 77, "username": "bob", "name": "python", "is_used": False}
    leases = tuple(
        Lease(uuid=gpu_uuid(index), index=index, **{**fields, **overrides}) for index in indices
    )
    idle = {"gpu_utilization_percent": 0, "memory_used_bytes": 0}
    devices = tuple(make_device(index=index, **idle) for index in range(4))
    return host(devices=devices, leases=leases)


def test_who_has_leased_what_and_does_not_use_it() -> None:
    finding = found(leased(0, 1, 2), "leased-unused")
    assert finding.sentence == "bob's python (PID 77) has leased GPU 0-2 and does not use them now"
    assert (finding.level, finding.held_seconds) == ("info", None)
    assert finding.indices == (0, 1, 2)


def test_a_used_one_and_one_that_cannot_be_seen_are_no_finding() -> None:
    assert "leased-unused" not in rules(leased(0, is_used=True))
    assert "leased-unused" not in rules(leased(0, is_used=None))


def test_it_becomes_a_warning_after_ten_minutes() -> None:
    watched = Watched()
    assert watched.see(leased(0), 599)["leased-unused"].level == "info"
    finding = watched.see(leased(0), 10)["leased-unused"]
    assert finding.level == "warn"
    assert finding.sentence.endswith("has leased GPU 0 and has not used it for 10 min")


def test_a_moment_of_use_starts_anew() -> None:
    watched = Watched()
    watched.see(leased(0), 590)
    watched.see(leased(0, is_used=True), 2)
    assert watched.see(leased(0), 20)["leased-unused"].level == "info"


def test_a_moment_in_which_the_use_cannot_be_seen_does_not() -> None:
    watched = Watched()
    watched.see(leased(0), 590)
    assert watched.see(leased(0, is_used=None), 2) == {}
    assert watched.see(leased(0), 20)["leased-unused"].level == "warn"


def test_a_long_time_in_which_the_use_cannot_be_seen_is_not_called_unused() -> None:
    watched = Watched()
    watched.see(leased(0), 590)
    for _ in range(60):
        assert watched.see(leased(0, is_used=None), 60) == {}
    finding = watched.see(leased(0), 10)["leased-unused"]
    assert finding.level == "info"
    assert finding.sentence.endswith("has not used it for 9 s")


def test_samples_that_come_rarely_add_up() -> None:
    watched = Watched()
    for _ in range(7):
        finding = watched.see(leased(0))["leased-unused"]
        watched.second += 119
    assert finding.level == "warn"


def test_a_leased_gpu_is_neither_free_nor_idle() -> None:
    snapshot = leased(1)
    first, second, *_ = snapshot.devices
    found_uses = uses(snapshot)
    assert (found_uses[first.key], found_uses[second.key]) == ("free", "leased")
    concerned = findings_by_device(snapshot)
    assert status(second, concerned[second.key]) == "leased"
