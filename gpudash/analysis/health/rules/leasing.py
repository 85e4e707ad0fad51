"""GPUs that are leased and not used: their holder may have forgotten them."""

from __future__ import annotations

from collections.abc import Iterator

from gpudash.analysis.health.context import Sight
from gpudash.analysis.health.rule import Rule, Symptom, lasted, number, spoken
from gpudash.analysis.labels import index_ranges, whose
from gpudash.model.device import Device
from gpudash.model.process import Lease

LEASED_UNUSED = Rule(
    "leased-unused", "leased by gpudash run and not used; a warning after 10 minutes", "leased"
)

_LONG_SECONDS, _UNSEEN_SECONDS = 600.0, 60.0
_ADVICE = (
    "A lease ends with the command that gpudash run started: ask its owner, or end it with "
    "gpudash kill PID. gpudash leases lists them all."
)

_Key = tuple[str, int | None]
"""UUID of a GPU and PID of who has leased it."""


class UnusedLeases:
    """Remembers since when each lease has not been used."""

    def __init__(self) -> None:
        self._since: dict[_Key, float] = {}
        self._seen: dict[_Key, float] = {}
        """When each was last seen not to be used."""

    def __call__(self, sight: Sight) -> Iterator[Symptom]:
        """Yield one symptom for each holder of GPUs on which nothing of it runs."""
        now = sight.work.now
        unused = [lease for lease in sight.snapshot.leases if lease.is_used is False]
        before, seen = self._since, self._seen
        self._since = {
            (each.uuid, each.pid): before.get((each.uuid, each.pid), now) for each in unused
        }
        self._seen = dict.fromkeys(self._since, now)
        # What cannot be seen for a moment is no use yet; who knows what was for longer.
        told = sight.snapshot.leases
        unseen = {(each.uuid, each.pid) for each in told if each.is_used is None}
        for each in unseen & before.keys():
            if now - seen[each] <= _UNSEEN_SECONDS:
                self._since[each], self._seen[each] = before[each], seen[each]
        devices: dict[str, Device] = {d.uuid: d for d in sight.snapshot.devices if d.uuid}
        for pid in dict.fromkeys(lease.pid for lease in unused):
            leases = [lease for lease in unused if lease.pid == pid]
            held = [devices[lease.uuid] for lease in leases if lease.uuid in devices]
            seconds = lasted(now - min(self._since[lease.uuid, pid] for lease in leases))
            yield _symptom(sight, leases, held, seconds)


def _symptom(sight: Sight, leases: list[Lease], held: list[Device], seconds: float) -> Symptom:
    first = leases[0]
    ranges = index_ranges({lease.index for lease in leases})
    who = whose(first.name, first.username, first.pid)
    them = "it" if ranges.isdecimal() else "them"
    lasting = (
        f"does not use {them} now"
        if sight.is_first or seconds < 1
        else f"has not used {them} for {spoken(seconds)}"
    )
    return Symptom(
        LEASED_UNUSED,
        first.pid,
        "warn" if seconds >= _LONG_SECONDS else "info",
        _ADVICE,
        sentence=f"{who} has leased GPU {ranges} and {lasting}",
        devices=tuple(held),
        evidence=(number("leased_gpu_count", len(leases)),),
        held_seconds=None if sight.is_first else seconds,
    )
