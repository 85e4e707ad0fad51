"""What is compared: gpudash and its peers, and the stand-in host that they all look at."""

import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

PEERS = ("nvitop==1.7.2", "gpustat==1.1.1")


@dataclass(frozen=True)
class Host:
    """What the stand-in driver makes believe, and the terminal in which it is watched."""

    devices: int
    processes: int
    processes_per_device: int
    size: tuple[int, int]


HOST = Host(devices=8, processes=30, processes_per_device=4, size=(120, 40))
LARGE_HOST = Host(devices=64, processes=500, processes_per_device=8, size=(200, 60))


@dataclass(frozen=True)
class Command:
    """A command line by the name under which it is reported."""

    name: str
    argv: tuple[str, ...]


def gpudash(*arguments: str) -> tuple[str, ...]:
    """Return gpudash's command line: its console script where it is installed, as users run it."""
    script = Path(sys.executable).with_name("gpudash")
    start = (str(script),) if script.exists() else (sys.executable, "-m", "gpudash")
    return (*start, *arguments)


def cache_folder() -> Path:
    """Return where compiled and installed things are kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "gpudash-benchmarks"


def peers(given: Path | None) -> Path:
    """Return the folder of the peers' scripts, installing them when no environment is given."""
    environment = given or cache_folder() / "peers"
    scripts = environment / "bin"
    if all((scripts / name).exists() for name in ("nvitop", "gpustat")):
        return scripts
    if given is not None:
        sys.exit(f"{given}: no nvitop and gpustat there; install {' '.join(PEERS)} into it")
    venv.create(environment, with_pip=True)
    subprocess.run([scripts / "python", "-m", "pip", "install", "--quiet", *PEERS], check=True)
    return scripts
