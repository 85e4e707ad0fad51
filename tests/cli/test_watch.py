import subprocess
import sys


def test_a_handler_that_raises_waits_until_msgspec_is_imported() -> None:
    code = (
        "import os, signal, sys\n"
        "from gpudash.cli.watch import import_msgspec\n"
        "class Raiser:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'msgspec._core': os.kill(os.getpid(), signal.SIGTERM)\n"
        "sys.meta_path.insert(0, Raiser())\n"
        "def handle(number, frame): raise SystemExit('msgspec._core' in sys.modules)\n"
        "signal.signal(signal.SIGTERM, handle)\n"
        "import_msgspec()"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 1
