"""The machine."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from msgspec import Struct

from gpudash.model.fields import Group, metric
from gpudash.model.text import SafeText
from gpudash.model.units import Unit

_host = partial(metric, Group.HOST)


class Host(Struct, frozen=True, kw_only=True):
    """The machine and its driver."""

    # fmt: off
    hostname: Annotated[SafeText, _host(Unit.NONE, "Name of the host.")]
    simulated: Annotated[bool, _host(Unit.NONE, "Whether all this is made up (--demo).")] = False
    driver_version: Annotated[SafeText | None, _host(Unit.NONE,
        "NVIDIA driver.", nvml="nvmlSystemGetDriverVersion")] = None
    nvml_version: Annotated[SafeText | None, _host(Unit.NONE,
        "NVML.", nvml="nvmlSystemGetNVMLVersion")] = None
    cuda_driver_version: Annotated[str | None, _host(Unit.NONE,
        "Highest CUDA that the driver supports.", nvml="nvmlSystemGetCudaDriverVersion_v2")] = None
    cpu_count: Annotated[int | None, _host(Unit.COUNT, "Logical CPUs.")] = None
    cpu_percent: Annotated[float | None, _host(Unit.PERCENT,
        "All CPUs together, 0 to 100: since the last sample, or since boot in a first one.")] = None
    memory_total_bytes: Annotated[int | None, _host(Unit.BYTE, "Host memory.")] = None
    memory_used_bytes: Annotated[int | None, _host(Unit.BYTE,
        "Host memory in use, without caches.")] = None
    memory_available_bytes: Annotated[int | None, _host(Unit.BYTE,
        "Host memory that can be had without swapping.")] = None
    swap_total_bytes: Annotated[int | None, _host(Unit.BYTE, "Swap space.")] = None
    swap_used_bytes: Annotated[int | None, _host(Unit.BYTE, "Swap space in use.")] = None
    load_average: Annotated[tuple[float, float, float] | None, _host(Unit.NONE,
        "Runnable tasks over 1, 5 and 15 minutes.")] = None
    uptime_seconds: Annotated[float | None, _host(Unit.SECOND, "Time since boot.")] = None
    # fmt: on
