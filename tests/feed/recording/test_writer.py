import os
import random
import resource
import stat
import subprocess
from pathlib import Path

import pytest

from gpudash.feed.recording.reader import Recording
from gpudash.feed.recording.writer import Writer
from gpudash.model.errors import OutputError, UsageError
from tests.feed.recording.lines import line, write


def numbers(path: Path) -> list[float]:
    recording = Recording(str(path))
    return [
        (each.snapshot().host.uptime_seconds or 0) - 1000
        for each in (recording.first, recording.last)
    ]


@pytest.mark.parametrize("name", ["host.jsonl", "host.jsonl.zst"])
def test_only_its_owner_can_read_it(tmp_path: Path, name: str) -> None:
    before = os.umask(0)
    try:
        path = write(tmp_path / name, [line(0)])
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_it_is_not_written_over_another_file(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text("mine")
    with pytest.raises(UsageError, match="exists: choose another name"):
        Writer(str(path))
    assert path.read_text() == "mine"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "link"
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError):
        Writer(str(path))
    assert not (tmp_path / "elsewhere").exists()


def test_a_recording_without_a_sample_leaves_no_file(tmp_path: Path) -> None:
    assert not write(tmp_path / "host.jsonl", []).exists()


def test_a_disk_that_is_full_and_takes_nothing_back_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "host.jsonl"
    writer = Writer(str(path))
    writer.write(line(0))
    if subprocess.run(["chattr", "+a", path], capture_output=True).returncode:
        pytest.skip("no file can be made that only grows")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10, limits[1]))
    try:
        with pytest.raises(OutputError, match="File too large: the recording ends here"):
            writer.write(line(1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        subprocess.run(["chattr", "-a", path], check=True)
    writer.close()
    assert numbers(path) == [0, 0]


def test_many_lines_are_packed_into_frames_of_a_bounded_size(tmp_path: Path) -> None:
    long = b'{"x":"%s",' % (b"y" * (1 << 20)) + line(1)[1:]
    recording = Recording(str(write(tmp_path / "host.zst", [long] * 9)))
    assert (recording.first.chunk, recording.last.chunk) == (0, 2)


KIB = 1 << 10


def test_lines_that_come_again_take_little_whatever_their_length(tmp_path: Path) -> None:
    for size in (4, 40, 80):
        lines = [random.Random(number).randbytes(size * KIB).hex().encode() for number in range(3)]
        once, often = (
            write(tmp_path / f"{size}-{times}.zst", lines * times).stat().st_size
            for times in (1, 3)
        )
        assert often < 1.02 * once


def test_a_file_that_was_removed_ends_the_recording(tmp_path: Path) -> None:
    path = tmp_path / "host.jsonl"
    writer = Writer(str(path))
    writer.write(line(0))
    path.unlink()
    with pytest.raises(OutputError, match="the file was removed"):
        writer.write(line(1))


@pytest.mark.parametrize("gone", ["removed", "replaced"])
def test_an_empty_file_is_removed_if_it_is_still_there(tmp_path: Path, gone: str) -> None:
    path = tmp_path / "host.jsonl"
    writer = Writer(str(path))
    other = tmp_path / "other"
    if gone == "replaced":
        other.write_text("mine")
        other.replace(path)
    else:
        path.unlink()
    writer.close()
    assert [each.read_text() for each in tmp_path.iterdir()] == ["mine"] * (gone == "replaced")
