"""The GPUs that the filter prompt narrows down on the screen of many hosts."""

from __future__ import annotations

from gpudash.fleet.where import GRAMMAR_OF_EVENTS, KIND, TERMS
from gpudash.model.errors import FilterError
from gpudash.model.fleet import HostKey
from gpudash.model.units import counted
from gpudash.tui.bindings import shown_key
from gpudash.tui.fleet.model import FleetModel


class FilteredGpus:
    """The GPUs of all hosts, along with their hosts, users and jobs."""

    examples = tuple(term.example for term in (*TERMS, KIND))

    def __init__(self, model: FleetModel) -> None:
        self._model = model
        self._before = ""
        self._cursor: HostKey | None = None

    @property
    def text(self) -> str:
        """The filter in force."""
        return self._model.filter.text

    @property
    def note(self) -> str:
        """How many GPUs match, of how many."""
        shown, everything = self._model.totals, self._model.everything
        return f"{shown.gpus:,} of {everything.gpus:,} GPUs on {counted(shown.hosts, 'host')}"

    @property
    def hint(self) -> str:
        """Why nothing matches: no filter shows that by itself."""
        return ""

    @property
    def warning(self) -> str:
        """A warning that nothing matches, else empty."""
        if self._model.rows or not self._model.is_filtered:
            return ""
        return f"No GPU fits; {shown_key(self._model.keys, 'fleet.back')} shows all"

    def begin(self) -> None:
        """Remember the filter in force and the cursor."""
        self._before = self._model.filter.text
        self.follow_cursor()

    def follow_cursor(self) -> None:
        """Remember the host under the cursor."""
        selected = self._model.selected_host
        self._cursor = None if selected is None else selected.host.key

    def apply(self, text: str) -> FilterError | None:
        """Show the matching GPUs."""
        self._model.before_narrow = None
        return apply(self._model, text)

    def take_back(self) -> None:
        """Restore the earlier filter."""
        apply(self._model, self._before)
        self._model.cursor = self._cursor


def apply(model: FleetModel, text: str) -> FilterError | None:
    """Show the GPUs that match a filter, ignoring an invalid word; return the error."""
    wanted, error = GRAMMAR_OF_EVENTS.understood(text)
    if wanted is not None:
        model.filter_by(wanted)
    return error
