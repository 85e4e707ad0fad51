"""CUDA's own software: toolkits and cuDNN, found in their usual locations."""

from __future__ import annotations

import os
import re

from gpudash.doctor.checks import Check, Machine, passed, warned
from gpudash.model.text import clean

_JSON_VERSION = re.compile(r'"cuda"\s*:\s*\{[^{}]*"version"\s*:\s*"(\d{1,4}\.\d{1,4}[\d.]{0,20})"')
_TEXT_VERSION = re.compile(r"CUDA Version (\d{1,4}\.\d{1,4}[\d.]{0,20})")
_HEADER_VERSION = re.compile(r"#define CUDNN_(MAJOR|MINOR|PATCHLEVEL)\s+(\d+)")
_LIBRARY = re.compile(r"libcudnn\.so\.(\d[\d.]*)")
_LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/local/lib",
)


def checks(machine: Machine, cuda_driver_version: str | None) -> list[Check]:
    """Return which toolkit and cuDNN exist, and whether the driver is new enough for them."""
    toolkits = _toolkits(machine)
    return [_toolkit(toolkits, cuda_driver_version), _cudnn(machine, list(toolkits))]


def _toolkit(toolkits: dict[str, str], supported: str | None) -> Check:
    topic = "CUDA toolkit"
    if not toolkits:
        return passed(topic, "none found; frameworks such as PyTorch bring their own")
    found = ", ".join(f"{version} in {folder}" for folder, version in toolkits.items())
    newer = [v for v in toolkits.values() if supported and _major(v) > _major(supported)]
    if newer:
        advice = "install a newer driver, or an older toolkit"
        finding = f"{found}: the driver runs programs of CUDA {supported} at most"
        return warned(topic, finding, advice)
    return passed(topic, found)


def _toolkits(machine: Machine) -> dict[str, str]:
    """Return the version of each toolkit by its folder, each real folder once."""
    named = [machine.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")]
    usual = [f"/usr/local/{name}" for name in machine.names("/usr/local") if name[:4] == "cuda"]
    places: dict[str, str] = {}
    for folder in [*named, *sorted(usual, reverse=True), "/usr/lib/cuda"]:
        if folder.startswith("/"):
            places.setdefault(machine.real_path(folder), folder)
    versions = {folder: _toolkit_version(machine, folder) for folder in places.values()}
    return {clean(folder): version for folder, version in versions.items() if version is not None}


def _toolkit_version(machine: Machine, folder: str) -> str | None:
    for name, pattern in (("version.json", _JSON_VERSION), ("version.txt", _TEXT_VERSION)):
        found = pattern.search(machine.read(f"{folder}/{name}") or "")
        if found:
            return found[1]
    return None


def _cudnn(machine: Machine, toolkits: list[str]) -> Check:
    found: dict[str, str] = {}
    for folder in _library_folders(machine, toolkits):
        version = _cudnn_version(machine, folder)
        if version is not None:
            found.setdefault(version, clean(folder))
    if not found:
        return passed("cuDNN", "none found; frameworks such as PyTorch bring their own")
    text = ", ".join(f"{version} in {folder}" for version, folder in found.items())
    if len({_major(version) for version in found}) > 1:
        advice = "programs load the first on their path: see LD_LIBRARY_PATH"
        return warned("cuDNN", f"{text}: several major versions", advice)
    return passed("cuDNN", text)


def _library_folders(machine: Machine, toolkits: list[str]) -> list[str]:
    environ = machine.environ
    folders = [each for each in environ.get("LD_LIBRARY_PATH", "").split(":") if each[:1] == "/"]
    for name in ("CONDA_PREFIX", "VIRTUAL_ENV"):
        prefix = environ.get(name, "")
        if prefix.startswith("/"):
            pythons = [each for each in machine.names(f"{prefix}/lib") if each[:6] == "python"]
            bundled = [f"{prefix}/lib/{each}/site-packages/nvidia/cudnn/lib" for each in pythons]
            folders += [f"{prefix}/lib", *bundled]
    folders += [f"{toolkit}/lib64" for toolkit in toolkits]
    return list(dict.fromkeys([*folders, *_LIBRARY_FOLDERS]))


def _cudnn_version(machine: Machine, folder: str) -> str | None:
    """Return the version from the header beside a library, or from the longest name of its file."""
    names = [found[1] for found in map(_LIBRARY.fullmatch, machine.names(folder)) if found]
    if not names:
        return None
    header = machine.read(f"{os.path.dirname(folder)}/include/cudnn_version.h") or ""
    parts = dict(_HEADER_VERSION.findall(header))
    if len(parts) == 3:
        return ".".join(parts[name] for name in ("MAJOR", "MINOR", "PATCHLEVEL"))
    return max(names, key=len)


def _major(version: str) -> int:
    return int(version.partition(".")[0])
