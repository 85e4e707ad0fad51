"""Compiles the stand-in for libnvidia-ml.so.1 with the machine's C compiler."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

LIBRARY = "libnvidia-ml.so.1"
SOURCE = Path(__file__).with_name("fakenvml.c")
CLOCK = Path(__file__).with_name("wallclock.c")
"""To be preloaded: a wall clock that a file moves."""


class CompilerError(Exception):
    """The library could not be built; the message says what to install or what cc said."""


def build(directory: Path, source: Path = SOURCE, name: str = LIBRARY) -> Path:
    """Compile a library into `directory`, unless a current one is there, and return it."""
    library = directory / name
    newest = max(path.stat().st_mtime for path in SOURCE.parent.glob("*.[ch]"))
    if library.exists() and library.stat().st_mtime >= newest:
        return library
    directory.mkdir(parents=True, exist_ok=True)
    partial = directory / f"{name}.{os.getpid()}"
    argv = [*_compiler(directory), "-shared", "-fPIC", "-pthread", "-o", str(partial), str(source)]
    run = subprocess.run(argv, capture_output=True, text=True)
    if run.returncode:
        raise CompilerError(f"{' '.join(argv)} failed:\n{run.stderr}")
    partial.replace(library)
    return library


def _compiler(directory: Path) -> list[str]:
    """Return the machine's C compiler, or one from PyPI where it has none."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is not None:
        return [compiler]
    install = [sys.executable, "-m", "pip", "install", "-q", "--target", str(directory / "zig")]
    run = subprocess.run([*install, "ziglang"], capture_output=True, text=True)
    if run.returncode:
        raise CompilerError(f"no C compiler: install gcc or clang, or set CC to one\n{run.stderr}")
    return [sys.executable, str(directory / "zig" / "ziglang"), "cc"]


def environment(library: Path, **settings: object) -> dict[str, str]:
    """Return this process's environment with the stand-in in front and its settings.

    The service of the machine, which has another driver, is left alone.
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith("FAKENVML_")}
    kept["GPUDASH_SOCKET"] = ""
    declared = {f"FAKENVML_{key}": str(value) for key, value in settings.items()}
    folders = [str(library.parent), os.environ.get("LD_LIBRARY_PATH", "")]
    return {**kept, **declared, "LD_LIBRARY_PATH": ":".join(filter(None, folders))}
