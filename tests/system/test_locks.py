import fcntl
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpudash.system import locks, processes

LISTING = """\
1: FLOCK  ADVISORY  WRITE 4242 00:16:4729 0 EOF
1: -> FLOCK  ADVISORY  WRITE 4300 00:16:4729 0 EOF
2: POSIX  ADVISORY  WRITE 99 fe:01:1234 0 EOF
3: FLOCK  ADVISORY  READ 12 00:16:5000 0 EOF
7: OFDLCK ADVISORY  READ -1 00:16:4729 303585 303585
4: FLOCK  ADVISORY  WRITE 0 00:1c:77 0 EOF
5: OFDLCK ADVISORY  WRITE -1 00:06:1 0 EOF
nonsense
6: FLOCK  ADVISORY  WRITE x 0:0 0 EOF
"""

HOLD = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(descriptor, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def directory() -> Iterator[str]:
    """A directory of sysfs, as that of a GPU is one; for one test of this machine at a time."""
    found = sorted(Path("/sys/bus/pci/devices").glob("*"))
    if not found:
        pytest.skip("this machine shows no PCI device, whose directory would be locked")
    turn = os.open("/sys/bus/pci", os.O_RDONLY)
    fcntl.flock(turn, fcntl.LOCK_EX)
    yield str(found[0])
    os.close(turn)


def start_ticks() -> int:
    stat = processes.read_stat(os.getpid())
    return stat.start_ticks


def test_only_held_exclusive_flocks_are_leases() -> None:
    found = locks.holders(tuple(locks.parse(LISTING.splitlines())))
    assert found == {
        (0, 0x16, 4729): locks.Leaseholder(4242, frozenset({303585})),
        (0, 0x1C, 77): locks.Leaseholder(0, frozenset()),
    }


def test_the_place_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUDASH_LOCK_DIR", raising=False)
    assert locks.lease_path("GPU-1", "00000000:1A:00.0") == "/sys/bus/pci/devices/0000:1a:00.0"
    assert locks.lease_path("GPU-1", None) is None
    assert locks.lease_path("GPU-1", "0:../../etc") is None
    assert locks.lease_path("GPU-1", "00010000:01:00.0") == "/sys/bus/pci/devices/10000:01:00.0"
    assert locks.lease_path("GPU-1", "garbage") is None
    monkeypatch.setenv("GPUDASH_LOCK_DIR", "/run/gpudash")
    assert locks.lease_path("GPU-1", "00000000:1A:00.0") == "/run/gpudash/GPU-1"
    assert locks.lease_path("../x", "00000000:1A:00.0") is None


def test_one_holder_at_a_time_who_is_named(directory: str) -> None:
    held = locks.acquire(directory)
    assert held is not None
    try:
        key = locks.key(directory)
        assert key is not None
        holder = locks.Leaseholder(os.getpid(), frozenset({start_ticks()}))
        assert locks.holders(locks.listed())[key] == holder
        assert locks.acquire(directory) is None
        assert key in locks.carried()
    finally:
        os.close(held)
    assert key not in locks.carried()
    again = locks.acquire(directory)
    assert again is not None
    os.close(again)


def test_a_lock_dies_with_its_holder(directory: str) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout.readline() == b"held\n"
        assert locks.acquire(directory) is None
        holder.kill()
        holder.wait()
        mine = locks.acquire(directory)
        assert mine is not None
        os.close(mine)


def test_what_others_could_replace_is_no_place(tmp_path: Path) -> None:
    place = tmp_path / "GPU-1"
    place.touch()
    tmp_path.chmod(0o777)
    with pytest.raises(PermissionError, match="others than root can replace it"):
        locks.acquire(str(place))


def test_no_place_at_all(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        locks.acquire(str(tmp_path / "nothing"))
    assert locks.key(str(tmp_path / "nothing")) is None


def test_locks_of_other_files_are_no_leases(
    directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GPUDASH_LOCK_DIR", raising=False)
    elsewhere, lease = locks.key(str(tmp_path)), locks.key(directory)
    assert elsewhere is not None
    assert lease is not None
    assert not locks.may_be_leases({})
    assert not locks.may_be_leases({elsewhere})
    assert locks.may_be_leases({elsewhere, lease})
    monkeypatch.setenv("GPUDASH_LOCK_DIR", str(tmp_path))
    assert locks.may_be_leases({elsewhere})


@pytest.mark.parametrize("kind", ["fifo", "link", "dangling link", "folder", "device", "socket"])
def test_what_is_no_regular_file_is_refused_and_never_opened(tmp_path: Path, kind: str) -> None:
    place, target = tmp_path / "GPU-1", tmp_path / "target"
    tmp_path.chmod(0o755)
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    elif kind == "device":
        os.mknod(place, 0o600 | stat.S_IFCHR, os.makedev(1, 7))
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(place))
    else:
        place.symlink_to(target)
        if kind == "link":
            target.touch()
    why = f"{place} cannot hold leases: it is not a regular file"
    assert locks.fault(str(place)) == why
    with pytest.raises(PermissionError, match=why):
        locks.acquire(str(place))


def test_shared_locks_have_holders_of_their_own() -> None:
    found = locks.holders(tuple(locks.parse(LISTING.splitlines())), shared=True)
    assert found == {(0, 0x16, 5000): locks.Leaseholder(12, frozenset())}


@pytest.mark.parametrize("whose", ["file", "folder"])
def test_what_is_not_roots_is_no_place(tmp_path: Path, whose: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    folder = tmp_path / "places"
    folder.mkdir()
    folder.chmod(0o1777)
    place = folder / "GPU-1"
    place.touch()
    held = locks.acquire(str(place))
    assert held is not None
    os.close(held)
    assert locks.fault(str(place)) is None
    os.chown(folder if whose == "folder" else place, 65534, -1)
    with pytest.raises(PermissionError, match="others than root can replace it"):
        locks.acquire(str(place))
