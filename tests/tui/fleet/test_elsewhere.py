"""The screen of many hosts on a machine that is neither Linux nor has a driver."""

import subprocess
import sys

_PROGRAM = """
import asyncio, builtins, io, os, signal, sys

for name in ("psutil", "pynvml", "gpudash.system.processes", "gpudash.collect"):
    sys.modules[name] = None
if hasattr(os, "pidfd_open"):
    del os.pidfd_open
if hasattr(signal, "pidfd_send_signal"):
    del signal.pidfd_send_signal

def without_proc(function):
    def call(path, *arguments, **options):
        if isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith(("/proc", "/sys")):
            raise FileNotFoundError(path)
        return function(path, *arguments, **options)
    return call

builtins.open = io.open = without_proc(open)
for name in ("open", "stat", "lstat", "listdir", "scandir", "readlink", "access"):
    setattr(os, name, without_proc(getattr(os, name)))

from gpudash.tui.app import GpudashApp
from gpudash.tui.fleet.map import MapPage
from gpudash.tui.fleet.model import FleetModel
from tests.feed.hand import HandFleetFeed
from tests.fleet.many import fleet, some_hosts

async def main():
    feed = HandFleetFeed()
    app = GpudashApp(MapPage(FleetModel(feed)))
    async with app.run_test(size=(80, 24)) as pilot:
        feed.give(fleet(some_hosts(40)))
        for key in ("1", "2", "3", "4", "5", "6", "1"):
            await pilot.press(key)
        picture = app.export_screenshot()
    os.write(1, b"drawn" if "gpu0000" in picture else picture.encode())

asyncio.run(main())
"""


def test_it_needs_neither_proc_nor_a_driver_nor_pidfd() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.returncode) == ("drawn", 0), done.stderr[-2000:]
