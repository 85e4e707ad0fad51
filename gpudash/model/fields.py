"""What a declared field carries beside its type: group, unit, help and the NVML call it is from."""

from __future__ import annotations

from enum import Enum

import msgspec

from gpudash.model.units import Unit


class Group(Enum):
    """The headings under which the metrics of a device are shown."""

    IDENTITY = "Identity"
    STATE = "State"
    MEMORY = "Memory"
    UTILIZATION = "Utilization"
    TEMPERATURE = "Temperature"
    POWER = "Power"
    CLOCKS = "Clocks"
    PCIE = "PCIe"
    NVLINK = "NVLink"
    RELIABILITY = "Reliability"
    SETTINGS = "Settings"
    MIG = "MIG"
    PROCESS = "Process"
    HOST = "Host"
    TOPOLOGY = "Topology"
    DOCUMENT = "Document"
    FINDING = "Finding"
    LEASE = "Lease"


def metric(group: Group, unit: Unit, help: str, *, nvml: str | None = None) -> msgspec.Meta:
    """Declare one field: `field: Annotated[int | None, metric(Group.POWER, Unit.MILLIWATT, ...)]`.

    `help` is one sentence for people; `nvml` names the call that answers it. JSON Schema, detail
    screen, CSV and README are generated from these.
    """
    schema: dict[str, str] = {"x-group": group.value}
    if unit is not Unit.NONE:
        schema["x-unit"] = unit.suffix
    if nvml is not None:
        schema["x-nvml"] = nvml
    return msgspec.Meta(
        description=help,
        extra_json_schema=schema,
        extra={"group": group, "unit": unit, "nvml": nvml},
    )
