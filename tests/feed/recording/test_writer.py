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
from gpudash.model.snapshot import Host
from gpudash.model.text import clean
from tests.factories import make_host
from tests.feed.recording.lines import line, write


def count(path: Path) -> int:
    recording = Recording(str(path))
    return 1 + len(list(recording.after(recording.first)))


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
    with pytest.raises(UsageError, match="is not a recording: choose another name"):
        Writer(str(path), 1 << 20)
    assert path.read_text() == "mine"


@pytest.mark.parametrize("told", [{}, {"max_bytes": 1 << 20}])
def test_a_link_is_not_followed(tmp_path: Path, told: dict[str, int]) -> None:
    path = tmp_path / "link"
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError):
        Writer(str(path), **told)
    assert not (tmp_path / "elsewhere").exists()


def test_a_recording_without_a_sample_leaves_no_file(tmp_path: Path) -> None:
    assert not write(tmp_path / "host.jsonl", []).exists()


@pytest.mark.parametrize("name", ["host.jsonl", "host.jsonl.zst"])
def test_a_full_file_is_moved_away(tmp_path: Path, name: str) -> None:
    size = 3 * len(line(0)) + 10 if name.endswith("l") else 3000
    path = write(tmp_path / name, map(line, range(40)), max_bytes=size, keep=2)
    files = [path, Path(f"{path}.1"), Path(f"{path}.2")]
    assert sorted(tmp_path.iterdir()) == files
    assert all(0 < each.stat().st_size <= size for each in files)
    ends = [numbers(each) for each in files]
    # They follow each other without a gap, the newest in the file itself.
    assert ends[0][1] == 39
    assert ends[1][1] == ends[0][0] - 1
    assert ends[2][1] == ends[1][0] - 1
    assert all(stat.S_IMODE(each.stat().st_mode) == 0o600 for each in files)


@pytest.mark.parametrize("odd", [4, 10, 40])
def test_no_packed_file_is_larger_than_asked_for(tmp_path: Path, odd: int) -> None:
    # How small a line is packed cannot be told by those before.
    sizes = (3000 if number == odd else number for number in range(60))
    noise = (random.Random(number).randbytes(size).hex() for number, size in enumerate(sizes))
    lines = (line(number, host=noisy(number, text)) for number, text in enumerate(noise))
    path = write(tmp_path / "host.zst", lines, max_bytes=6000, keep=60)
    files = sorted(tmp_path.iterdir(), key=lambda each: int(f"{each.name}.0".split(".")[2]))
    assert files[0] == path
    assert sum(map(count, files)) == 60
    assert numbers(files[-1])[0] == 0
    assert all(each.stat().st_size <= 6000 or count(each) == 1 for each in files)
    assert len(files) < 15


def noisy(number: int, text: str) -> Host:
    return make_host(uptime_seconds=1000.0 + number, hostname=clean(text))


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


def test_the_recording_of_before_is_moved_away_first(tmp_path: Path) -> None:
    path = write(tmp_path / "host.jsonl", [line(0)], max_bytes=1 << 20)
    write(path, [line(7), line(8)], max_bytes=1 << 20)
    assert numbers(Path(f"{path}.1")) == [0, 0]
    assert numbers(path) == [7, 8]


def test_many_lines_are_packed_into_frames_of_a_bounded_size(tmp_path: Path) -> None:
    long = b'{"x":"%s",' % (b"y" * (1 << 20)) + line(1)[1:]
    recording = Recording(str(write(tmp_path / "host.zst", [long] * 9)))
    assert (recording.first.chunk, recording.last.chunk) == (0, 2)


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


@pytest.mark.parametrize("keep", [1, 2])
def test_a_rotation_that_fails_ends_it_with_its_reason(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "host.jsonl"
    writer = Writer(str(path), len(line(0)) + 10, keep)
    writer.write(line(0))
    in_the_way = Path(f"{path}.{keep}")
    in_the_way.mkdir()
    (in_the_way / "file").touch()
    if keep == 2:
        Path(f"{path}.1").touch()
    with pytest.raises(OutputError, match="the recording ends here"):
        writer.write(line(1))
    writer.close()
    assert numbers(path) == [0, 0]


def test_a_file_that_is_no_recording_is_not_rotated_away(tmp_path: Path) -> None:
    path = write(tmp_path / "host.jsonl", [line(0)], max_bytes=1 << 20)
    notes = Path(f"{path}.2")
    notes.write_text("mine")
    with pytest.raises(UsageError, match=r"host.jsonl.2 is not a recording: choose another name"):
        Writer(str(path), 1 << 20, 2)
    assert notes.read_text() == "mine"
    assert numbers(path) == [0, 0]
