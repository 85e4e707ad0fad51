import json
import subprocess
import sys

import pytest

REPORT = "import json, sys; print(json.dumps(sorted(sys.modules)))"


def modules_after(code: str) -> set[str]:
    """Return what a fresh interpreter has imported after some code."""
    run = subprocess.run(
        [sys.executable, "-c", f"{code}\n{REPORT}"], capture_output=True, text=True, check=True
    )
    return set(json.loads(run.stdout))


def test_msgspec_works_without_typing_extensions() -> None:
    code = (
        "from gpudash.system import startup as quick; quick.begin()\n"
        "from gpudash.model import wire; from gpudash.model.snapshot import EMPTY\n"
        "assert wire.decode(wire.encode(EMPTY)) == EMPTY; wire.json_schema()"
    )
    assert "typing_extensions" not in modules_after(code)


def test_msgspec_works_without_what_it_imports_for_nothing() -> None:
    code = (
        "from gpudash.system import startup as quick; quick.begin()\n"
        "from gpudash.model import wire; from gpudash.model.snapshot import EMPTY\n"
        "assert wire.decode(wire.encode(EMPTY)) == EMPTY"
    )
    assert not {"platform", "textwrap", "typing_extensions"} & modules_after(code)


def test_a_handler_that_raises_waits_until_msgspec_is_loaded() -> None:
    code = (
        "import os, signal, sys\n"
        "from gpudash.system import startup as quick\n"
        "class Raiser:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'msgspec._core': os.kill(os.getpid(), signal.SIGTERM)\n"
        "sys.meta_path.insert(0, Raiser())\n"
        "def handle(number, frame): raise SystemExit('msgspec._core' in sys.modules)\n"
        "signal.signal(signal.SIGTERM, handle)\n"
        "quick.begin()"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 1


def test_uuids_are_made_as_ever_after_a_quick_start() -> None:
    code = (
        "from gpudash.system import startup as quick; quick.begin()\n"
        "import uuid; assert uuid.uuid4().version == 4"
    )
    assert "uuid" in modules_after(code)


def test_pynvml_works_without_ctypes_util() -> None:
    loaded = modules_after("from gpudash.collect.nvml.library import load; load().NVMLError(9)")
    assert "pynvml" in loaded
    assert not loaded & {"ctypes.util", "shutil", "tempfile", "subprocess"}


@pytest.mark.parametrize("module", ["typing_extensions", "ctypes.util", "platform", "textwrap"])
def test_the_real_module_can_be_imported_afterwards(module: str) -> None:
    code = (
        "from gpudash.system import startup as quick; quick.begin()\n"
        "from gpudash.collect.nvml.library import load; load()\n"
        f"import importlib; assert importlib.import_module({module!r}).__file__"
    )
    assert module in modules_after(code)


def test_garbage_is_collected_again_in_a_long_run() -> None:
    code = (
        "import gc; from gpudash.system import startup as quick\n"
        "quick.begin(); assert not gc.isenabled()\n"
        "quick.settle(); assert gc.isenabled() and gc.get_freeze_count() > 0"
    )
    assert modules_after(code)
