"""A cursor that stands on a finding, not on a place: findings come, go, and change their rank."""

from __future__ import annotations

from collections.abc import Sequence

from gpudash.model.snapshot import Finding


class FindingCursor:
    """Stays on its finding while processes and devices join and leave it.

    It stays in its place where the finding is gone, and goes back to one that only some samples
    left out.
    """

    def __init__(self) -> None:
        self.place = 0
        self.finding: Finding | None = None
        """What it stands on, as it was when it was last followed."""
        self._missed: Finding | None = None

    def follow(self, findings: Sequence[Finding]) -> None:
        """Take the findings of another sample."""
        missed, here = (_place(each, findings) for each in (self._missed, self.finding))
        if missed is not None:
            self._missed = None
        elif here is None and self._missed is None:
            self._missed = self.finding
        self._stand(findings, self.place if here is None else here)
        if missed is not None:
            self._stand(findings, missed)

    def move_to(self, place: int, findings: Sequence[Finding]) -> None:
        """Put it on another finding, the nearest that there is."""
        self._missed = None
        self._stand(findings, place)

    def _stand(self, findings: Sequence[Finding], place: int) -> None:
        self.place = max(0, min(place, len(findings) - 1))
        self.finding = findings[self.place] if findings else None


def _place(wanted: Finding | None, findings: Sequence[Finding]) -> int | None:
    """Return where the same finding stands now, None if it is gone."""
    if wanted is None:
        return None
    likeness = [_likeness(wanted, finding) for finding in findings]
    best = max(likeness, default=None)
    return likeness.index(best) if best else None


def _likeness(one: Finding, other: Finding) -> tuple[int, int, int] | tuple[()]:
    """Return how much two findings of a rule have in common, nothing if they are not the same.

    What tells them apart is processes, else devices; of several on one device their proof.
    """
    pids, devices = _common(one.pids, other.pids), _common(_devices(one), _devices(other))
    are_of_processes = bool(one.pids and other.pids)
    is_same = pids if are_of_processes else devices or not (_devices(one) or _devices(other))
    if one.rule != other.rule or not is_same:
        return ()
    return pids, devices, _common(one.evidence, other.evidence)


def _devices(finding: Finding) -> tuple[object, ...]:
    return finding.uuids or finding.indices


def _common(one: Sequence[object], other: Sequence[object]) -> int:
    return len({*one} & {*other})
