"""The versions of the driver."""

from __future__ import annotations

from msgspec import Struct

from gpudash.collect.nvml.library import Library
from gpudash.model.text import SafeText, clean


class Versions(Struct, frozen=True, kw_only=True):
    """The driver's versions, None where it does not tell."""

    driver_version: SafeText | None = None
    nvml_version: SafeText | None = None
    cuda_driver_version: str | None = None


def read_versions(library: Library) -> Versions:
    """Ask for all of them."""
    driver, _ = library.ask("nvmlSystemGetDriverVersion")
    nvml, _ = library.ask("nvmlSystemGetNVMLVersion")
    cuda, _ = library.ask("nvmlSystemGetCudaDriverVersion_v2")
    return Versions(
        driver_version=clean(driver) if driver else None,
        nvml_version=clean(nvml) if nvml else None,
        cuda_driver_version=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
    )
