from __future__ import annotations

import subprocess
import sys

CHECK = """
import sys
from gpudash.system.imports import import_msgspec
import_msgspec()
from gpudash.collect.nvml.library import load
pynvml = load()
assert not {"typing_extensions", "ctypes.util"} & set(sys.modules)
import ctypes.util, typing_extensions
assert ctypes.util.find_library
assert typing_extensions.NotRequired
"""


def test_a_handler_that_raises_waits_until_msgspec_is_imported() -> None:
    code = (
        "import os, signal, sys\n"
        "from gpudash.system.imports import import_msgspec\n"
        "class Raiser:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'msgspec._core': os.kill(os.getpid(), signal.SIGTERM)\n"
        "sys.meta_path.insert(0, Raiser())\n"
        "def handle(number, frame): raise SystemExit('msgspec._core' in sys.modules)\n"
        "signal.signal(signal.SIGTERM, handle)\n"
        "import_msgspec()"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 1


def test_what_was_left_out_can_be_imported_later() -> None:
    assert subprocess.run([sys.executable, "-c", CHECK]).returncode == 0
