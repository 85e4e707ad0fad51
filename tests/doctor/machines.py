"""Made-up machines to examine: files in a folder, symbolic links where a path points."""

import os
from pathlib import Path

from gpudash.doctor.checks import Check, Machine

VERSION = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024"


def machine(root: Path, *, links: dict[str, str] | None = None, **environ: str) -> Machine:
    """The machine below `root`, whose links are made now."""
    for place, target in (links or {}).items():
        path = root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
    return Machine(str(root), environ)


def write(root: Path, name: str, text: str = "") -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def add_gpu(root: Path, address: str = "0000:1a:00.0", driver: str | None = "nvidia") -> None:
    folder = f"sys/bus/pci/devices/{address}"
    write(root, f"{folder}/vendor", "0x10de\n")
    write(root, f"{folder}/class", "0x030200\n")
    if driver:
        os.symlink(f"../../drivers/{driver}", root / folder / "driver")


def add_module(root: Path, version: str = VERSION) -> None:
    write(root, "proc/driver/nvidia/version", f"{version}\nGCC version: 12.2.0\n")


def add_nodes(root: Path, *names: str) -> None:
    for name in names:
        write(root, f"dev/{name}")


def by_topic(checks: list[Check]) -> dict[str, Check]:
    return {check.topic: check for check in checks}
