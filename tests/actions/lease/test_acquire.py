import os
import sys
from contextlib import closing
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from gpudash.actions.lease.acquire import lease
from gpudash.actions.lease.request import GpuRequest
from gpudash.feed.sampler import Sampler
from gpudash.model.wire import encode
from tests.factories import GIB, gpu_uuid, make_device, make_snapshot

HOLD = """
import fcntl, sys
file = open(sys.argv[1])
fcntl.flock(file, fcntl.LOCK_EX)
print(flush=True)
sys.stdin.read()
"""

REPEAT = """
import sys, time
while True:
    print(sys.argv[1], flush=True)
    time.sleep(0.02)
"""


class Counted(Sampler):
    """One that counts the samples that it was asked for."""

    asked = 0

    def next_sample(self) -> None:
        self.asked += 1
        super().next_sample()


def test_after_the_last_of_some_attempts_nothing_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("lock files of leases must belong to root")
    monkeypatch.setenv("GPUDASH_LOCK_DIR", str(tmp_path))
    idle = {"memory_used_bytes": 0, "memory_free_bytes": 79 * GIB, "gpu_utilization_percent": 0}
    devices = [make_device(index=index, **idle) for index in range(2)]
    for device in devices:
        (tmp_path / str(device.uuid)).touch()
    # As it was before another process took one of them, again and again.
    line = encode(make_snapshot(devices=tuple(devices), processes=())).decode()
    argv = [sys.executable, "-c", HOLD, str(tmp_path / gpu_uuid(0))]
    with Popen(argv, stdin=PIPE, stdout=PIPE) as other:
        assert other.stdout.readline() == b"\n"
        repeating = [sys.executable, "-c", REPEAT, line]
        with closing(Counted(repeating, interval=0.1, keep=1)) as sampler:
            sampler.fill()
            found = lease(sampler, GpuRequest(count=2))
            assert found == "2 GPUs wanted, 1 free: GPU 0 just taken by another process"
            assert sampler.asked == 5
        other.communicate()
