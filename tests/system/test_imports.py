import subprocess
import sys

import pytest

CHECK = """
import sys
from gpudash.system.imports import import_argparse, import_asyncio, import_msgspec
import_argparse()
import_msgspec()
from gpudash.collect.nvml.library import load
pynvml = load()
left_out = {"ctypes.util", "decimal", "gettext", "platform", "string", "textwrap"}
assert not {"typing_extensions", *left_out} & set(sys.modules)
import msgspec
class Documented(msgspec.Struct):
    '''A line.'''
assert msgspec.json.schema(Documented)["$defs"]["Documented"]["description"] == "A line."
import_asyncio()
import gpudash.tui.app
assert "ssl" not in sys.modules
import ctypes.util, decimal, gettext, platform, ssl, string, textwrap, typing_extensions
assert ctypes.util.find_library
assert decimal.getcontext()
assert gettext.translation
assert platform.machine()
assert ssl.SSLContext
assert string.Template
assert textwrap.wrap
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


@pytest.mark.parametrize(
    "command",
    [
        "--once",
        "--once --demo",
        "--query-gpu=name --format=csv --demo",
        "-q --demo",
        "pick --demo",
        "topo --demo",
        "kill 999999999",
        "--once --demo=fleet-small",
        "--prometheus http://127.0.0.1:9 --once",
    ],
)
def test_no_command_imports_what_msgspec_brings_along(command: str) -> None:
    argv = [sys.executable, "-X", "importtime", "-m", "gpudash", *command.split()]
    run = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    imported = {line.rpartition("|")[2].strip() for line in run.stderr.splitlines()}
    assert "msgspec" in imported
    # urllib3 does since Python 3.12, whose importlib.metadata it asks for the version of h2.
    if "urllib3" not in imported or sys.version_info < (3, 12):
        assert "inspect" not in imported
