"""What the prompt of the filter narrows down on the screen of many hosts: GPUs."""

from __future__ import annotations

from gpudash.fleet.summary import Fits
from gpudash.model.errors import FilterError
from gpudash.model.fleet import FleetDevice, FleetHost
from gpudash.tui.fleet.model import FleetModel, HostKey, host_key
from gpudash.tui.theme import Theme

_NOTHING_FITS = "No GPU fits; Esc shows all"


class FilteredGpus:
    """The GPUs of all hosts, and with them their hosts, users and jobs."""

    examples = ("host", "user", "job")

    def __init__(self, model: FleetModel) -> None:
        self._model = model
        self._before = ""
        self._cursor: HostKey | None = None

    @property
    def theme(self) -> Theme:
        """That of the screen."""
        return self._model.theme

    @property
    def text(self) -> str:
        """The filter in force."""
        return self._model.filter_text

    @property
    def note(self) -> str:
        """How many GPUs fit, of how many."""
        shown, everything = self._model.totals, self._model.everything
        return f"{shown.gpus:,} of {everything.gpus:,} GPUs on {shown.hosts:,} hosts"

    @property
    def hint(self) -> str:
        """Why nothing fits: that no filter shows by itself."""
        return ""

    @property
    def warning(self) -> str:
        """That nothing fits, where that is so."""
        return "" if self._model.rows or not self._model.is_filtered else _NOTHING_FITS

    def begin(self) -> None:
        """Note the filter in force and the cursor."""
        self._before = self._model.filter_text
        self.follow_cursor()

    def follow_cursor(self) -> None:
        """Note the host under the cursor."""
        selected = self._model.selected_host
        self._cursor = None if selected is None else host_key(selected.host)

    def apply(self, text: str) -> FilterError | None:
        """Show the GPUs that fit."""
        return apply(self._model, text)

    def take_back(self) -> None:
        """Filter as before."""
        apply(self._model, self._before)
        self._model.cursor = self._cursor

    def report(self, message: str) -> None:
        """Show a message in the footer."""
        self._model.message = message


def apply(model: FleetModel, text: str) -> FilterError | None:
    """Show the GPUs that a filter fits, without regard to a wrong word; return what is wrong."""
    words = text.casefold().split()
    model.filter_by(text, _plain(words) if words else None)
    return None


def _plain(words: list[str]) -> Fits:
    def fits(host: FleetHost, device: FleetDevice | None) -> bool:
        texts = [host.name, host.group or ""]
        if device is not None:
            texts += [*device.users, device.job or "", device.status]
        found = " ".join(texts).casefold()
        return all(word in found for word in words)

    return fits
