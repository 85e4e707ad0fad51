import platform
import subprocess
import sys

import pytest

FREE_AND_TELL = """
from gpudash.system import memory

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

{before}
bytearray(8 << 20)  # what is freed once is taken for wanted often
pieces = [bytearray({size}) for _ in range({count})]
kept = bytearray(600)  # above all of it, where it keeps the heap from shrinking
full = resident()
del pieces
{after}
assert full - resident() > 30 << 20, (full, resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
@pytest.mark.parametrize(
    ("before", "size", "count", "after"),
    [
        ("memory.give_back_large()", 200_000, 200, ""),
        ("", 2000, 20_000, "memory.give_back_freed()"),
    ],
)
def test_what_is_free_is_given_back(before: str, size: int, count: int, after: str) -> None:
    script = FREE_AND_TELL.format(before=before, size=size, count=count, after=after)
    subprocess.run([sys.executable, "-c", script], check=True)
