"""Field values: all that is due of a GPU in one call, and no more of what it refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.answers import FieldAnswers
from gpudash.collect.nvml.calls import FIELD_VALUES, FieldValue
from gpudash.collect.nvml.library import Library
from gpudash.collect.nvml.paces import RETRY_SECONDS, STATIC_SECONDS
from gpudash.collect.nvml.poll import DeviceLost
from gpudash.collect.nvml.rates import Counters

if TYPE_CHECKING:
    from gpudash.collect.nvml.link_errors import LinkErrors
    from gpudash.collect.nvml.throttling import Throttling

_NOT_ASKED = FieldAnswers({}, frozenset(), codes.SUCCESS)


class Fields:
    """The field values of one GPU, each on its pace, with all that counts in the same batch."""

    def __init__(self, library: Library) -> None:
        self._counters = Counters()
        self._throttling: Throttling | None = None
        self._link_errors: LinkErrors | None = None
        self._library = library
        self._due = dict.fromkeys(FIELD_VALUES, 0.0)
        self._has_call = True

    def follow_links(self, active: tuple[int, ...]) -> None:
        """Count what goes over these NVLinks, those that are up."""
        self._counters.links = active

    def bound_pcie(self, most_bytes_per_second: float | None) -> None:
        """Take note of what the PCIe link carries each way at its best, None if unknown."""
        self._counters.pcie_ceiling = most_bytes_per_second

    def start_slow(self) -> None:
        """Begin with what tells nothing in a first tick, which may be the only one."""
        if self._throttling is None:
            from gpudash.collect.nvml.link_errors import LinkErrors
            from gpudash.collect.nvml.throttling import Throttling

            self._throttling, self._link_errors = Throttling(), LinkErrors(self._library)

    def read(self, handle: Any, now: float) -> dict[str, Any]:
        """Return the fields that were due; those of the counters at each read.

        Raises DeviceLost when the device says that it is gone.
        """
        wanted = [field for field, due in self._due.items() if now >= due]
        batch = [(field.id, 0) for field in wanted]
        if not self._library.single_look:
            batch += self._counters.wanted()
        if self._throttling is not None and self._link_errors is not None:
            self._link_errors.links = self._counters.links
            batch += self._throttling.wanted(now) + self._link_errors.wanted(now)
        answers = _NOT_ASKED
        if batch and self._has_call:
            answers = self._library.fields(handle, batch)
        if answers.code in codes.DEAD:
            raise DeviceLost(answers.code)
        self._has_call = self._has_call and answers.code not in codes.PERMANENT
        facts = {field.field: self._take(field, answers, now) for field in wanted}
        facts.update(self._counters.rates(answers.values, answers.refused, now))
        if self._throttling is not None and self._link_errors is not None:
            facts.update(self._throttling.facts(answers, now))
            facts.update(self._link_errors.facts(answers, handle, now))
        return facts

    def _take(self, field: FieldValue, answers: FieldAnswers, now: float) -> Any:
        scope = field.id, 0
        answer = answers.values.get(scope)
        if scope in answers.refused:
            del self._due[field]
        elif field.seconds == STATIC_SECONDS and answer is None:
            self._due[field] = now + RETRY_SECONDS
        else:
            self._due[field] = now + field.seconds
        return None if answer is None else field.convert(answer.value)
