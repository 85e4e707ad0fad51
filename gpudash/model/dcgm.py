"""Names and units of metrics in DCGM's exporter: up to 4.8, and since 4.9."""

from __future__ import annotations

from typing import Literal, NamedTuple

from gpudash.model.fields import Field
from gpudash.model.units import Unit

Generation = Literal["legacy", "4.9"]

XID: dict[Generation, str] = {"legacy": "DCGM_FI_DEV_XID_ERRORS", "4.9": "DCGM_FI_DEV_XID_ERROR"}
"""The last XID error, which is not a field of a device."""

_LEGACY_UNITS = {Unit.BYTE: (1 / (1 << 20), "in MiB"), Unit.MILLIWATT: (1e-3, "in W")}
"""The factor that converts a value for DCGM up to 4.8, and the note in its help."""
_RATIO = (0.01, "as a ratio")
"""The same for DCGM's profiling metrics: percentages here, 0 to 1 there."""
_NEW_UNITS = {
    Unit.PERCENT: _RATIO,
    Unit.MEGAHERTZ: (1e6, "in Hz"),
    Unit.MILLIWATT: (1e-3, "in W"),
    Unit.MILLIJOULE: (1e-3, "in J"),
}
"""The same since 4.9, which has base units only."""


class DcgmMetric(NamedTuple):
    """A field in DCGM's exporter."""

    name: str
    factor: float
    """The factor by which the field's value is multiplied."""
    note: str
    """The unit if it differs: `in MiB`."""


def dcgm_metric(field: Field, generation: Generation) -> DcgmMetric | None:
    """Return a field's name and unit in one generation, None if the exporter has no such metric."""
    if not field.dcgm:
        return None
    is_new = generation == "4.9"
    name = field.dcgm[-1 if is_new else 0]
    units = _NEW_UNITS if is_new else _LEGACY_UNITS
    is_profiled = name.startswith("DCGM_FI_PROF_") and field.unit is Unit.PERCENT
    factor, note = _RATIO if is_profiled else units.get(field.unit, (1.0, ""))
    return DcgmMetric(name, factor, note)
