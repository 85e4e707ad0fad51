from pathlib import Path

from gpudash.system.files import read_link, read_start


def test_a_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 9)
    assert read_start(str(tmp_path / "file"), 4) == b"xxxx"
    assert read_start(str(tmp_path / "file"), 100) == b"x" * 9
    # A file of many records comes in pieces of a page.
    smaps = read_start("/proc/self/smaps", 1 << 20)
    assert smaps is not None
    assert len(smaps) > 1 << 14


def test_what_cannot_be_read_is_none(tmp_path: Path) -> None:
    assert read_start(str(tmp_path / "none"), 4) is None
    assert read_start(str(tmp_path), 4) is None
    assert read_link(str(tmp_path / "none")) == ""
