import errno
import os
import random
import time
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.cli.arguments import parse
from gpudash.feed.instants import Span
from gpudash.feed.recording.reader import Chunks, PlainChunks, Recording, open_chunks
from gpudash.feed.recording.samples import after, open_recorded
from gpudash.model import fleet, wire
from gpudash.model.errors import UsageError, WireError
from tests.factories import gpu_uuid
from tests.feed.recording.lines import START, line, second, write
from tests.strategies import snapshots

NAMES = ("host.jsonl", "host.jsonl.zst")


@pytest.fixture(params=NAMES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / str(request.param)


def times(recording: Recording) -> list[float]:
    samples = [recording.first, *recording.after(recording.first)]
    return [(sample.taken_at - START).total_seconds() for sample in samples]


class Failing(Chunks):
    count = max_empty = 1

    def read(self, number: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_disk_that_fails_is_one_line() -> None:
    with pytest.raises(UsageError, match=r"mem: Input/output error"):
        open_chunks("/proc/self/mem")
    with pytest.raises(WireError, match=r"node7: Input/output error"):
        Recording("node7", lambda _path: Failing())


@pytest.mark.parametrize("start", [b"", b"\x28\xb5\x2f\xfd\x04\x58"], ids=["lines", "zstd"])
def test_a_file_that_is_nearly_a_hole_is_given_up_early(tmp_path: Path, start: bytes) -> None:
    hole = tmp_path / "hole"
    with hole.open("wb") as file:
        file.write(start)
        file.truncate(1 << 40)
    with pytest.raises(WireError, match="not a recording"):
        Recording(str(hole))


@given(st.lists(snapshots(), min_size=1, max_size=2), st.sampled_from(NAMES))
def test_every_line_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, taken: list[wire.Snapshot], name: str
) -> None:
    path = write(tmp_path_factory.mktemp("recording") / name, map(wire.encode, taken))
    recording = Recording(str(path))
    samples = [recording.first, *recording.after(recording.first)]
    assert [sample.snapshot() for sample in samples] == taken
    assert [sample.line for sample in samples] == [wire.encode(each) for each in taken]


def test_any_instant_is_found(path: Path) -> None:
    recording = Recording(str(write(path, map(line, range(0, 900, 3)))))
    for wanted in range(900):
        sample = recording.at(START + timedelta(seconds=wanted))
        assert sample.snapshot() == second(wanted // 3 * 3)
    assert recording.at(START - timedelta(days=1)) == recording.first
    assert recording.at(START + timedelta(days=1)) == recording.last
    assert recording.span == (START, START + timedelta(seconds=897))


@pytest.mark.parametrize("size", [1, 7, 1000, 4000, 1 << 20])
def test_pieces_of_any_size_hold_every_line_once(tmp_path: Path, size: int) -> None:
    taken = [line(number) for number in range(5)]
    path = tmp_path / "host.jsonl"
    write(path, taken)

    def in_pieces(name: str) -> Chunks:
        with open(name, "rb") as file:
            return PlainChunks(os.dup(file.fileno()), size)

    recording = Recording(str(path), in_pieces)
    assert [
        recording.first.line,
        *(each.line for each in recording.after(recording.first)),
    ] == taken
    assert [
        recording.last.line,
        *(each.line for each in recording.before(recording.last)),
    ] == taken[::-1]
    assert recording.at(START + timedelta(seconds=3.5)).line == taken[3]


def test_a_recording_of_the_first_schema_still_replays() -> None:
    recording = Recording(str(Path(__file__).with_name("schema-1.jsonl.zst")))
    assert times(recording) == [0, 1, 2]
    last = recording.last.snapshot()
    assert (last.host.uptime_seconds, last.devices[0].uuid) == (1002, gpu_uuid(0))
    assert recording.note == recording.last.note == ""


def test_samples_before_and_after_one(path: Path) -> None:
    recording = Recording(str(write(path, map(line, range(9)))))
    middle = recording.at(START + timedelta(seconds=4))
    assert [each.snapshot() for each in recording.after(middle)] == [second(n) for n in range(5, 9)]
    assert [each.snapshot() for each in recording.before(middle)] == [
        second(n) for n in (3, 2, 1, 0)
    ]


def test_cut_within_its_last_line_it_still_replays(path: Path) -> None:
    whole = write(path, map(line, range(3))).read_bytes()
    shorter = write(path.with_name(f"shorter-{path.name}"), map(line, range(2))).read_bytes()
    # What ends a frame of zstd stands behind its last line.
    start = len(shorter) - (7 if path.suffix == ".zst" else 0)
    for end in (*range(start, len(whole), 11), len(whole) - 1, len(whole)):
        path.write_bytes(whole[:end])
        found = times(Recording(str(path)))
        assert found in ([0, 1], [0, 1, 2]), end
    assert found == [0, 1, 2]


def test_lines_that_are_no_samples_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "host.jsonl"
    hostile = [b"\x00\xff", b"", b"[1]", b'{"taken_at":7}', b'{"taken_at":"2026-01-02"}', b"{" * 9]
    path.write_bytes(b"\n".join([*hostile, line(1), *hostile, line(2), *hostile]))
    assert times(Recording(str(path))) == [1, 2]


def test_a_line_of_fourteen_mebibytes_that_hardly_packs_is_read(path: Path) -> None:
    noise = random.Random(7).randbytes(7 << 20).hex().encode()
    long = b'{"x":"%s",' % noise + line(1)[1:]
    recording = Recording(str(write(path, [line(0), long, line(2)])))
    assert times(recording) == [0, 1, 2]
    assert recording.at(START + timedelta(seconds=1)).snapshot() == second(1)


def test_a_line_of_many_hosts_may_be_longer(path: Path) -> None:
    first, many, last = (
        fleet.FleetSnapshot(taken_at=START + timedelta(seconds=each)) for each in range(3)
    )
    long = fleet.encode(many)[:-1] + b',"x":"%s"}' % (b"y" * (20 << 20))
    recording = Recording(str(write(path, [fleet.encode(first), long, fleet.encode(last)])))
    assert times(recording) == [0, 1, 2]
    assert recording.at(many.taken_at).fleet() == many


@pytest.mark.parametrize("is_fleet", [True, False])
def test_lines_of_the_other_kind_are_left_out(path: Path, is_fleet: bool) -> None:
    many = fleet.encode(fleet.FleetSnapshot(taken_at=START + timedelta(seconds=5)))
    one = line(0)
    write(path, [many, one] if is_fleet else [one, many])
    recording = Recording(str(path))
    assert recording.last == recording.first
    assert recording.first.is_fleet is is_fleet
    others = "one host" if is_fleet else "many hosts"
    assert recording.note == f"{path} has samples of {others}, too, which are left out"


def test_hostile_texts_are_cleaned(path: Path) -> None:
    taken = msgspec.json.decode(line(0))
    taken["host"]["hostname"] = "\x1b[2Jnode\u202e"
    recording = Recording(str(write(path, [msgspec.json.encode(taken)])))
    assert recording.first.snapshot().host.hostname == "\\x1b[2Jnode\\u202e"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"hello\n", "not a recording"),
        (b"\x28\xb5\x2f\xfd" + bytes(range(256)), "not a recording"),
        (b"\0" * 100, "not a recording"),
    ],
)
def test_what_is_no_recording_says_so(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "host.jsonl"
    path.write_bytes(content)
    with pytest.raises(WireError, match=words):
        Recording(str(path))


@pytest.mark.parametrize("name", ["none", ".", "/dev/null"])
def test_what_is_no_file_says_so(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"No such file|not a regular file"):
        open_chunks(str(tmp_path / name))


def test_a_newer_schema_is_read_as_far_as_it_is_known(path: Path) -> None:
    later = line(0, schema=7)[:-1] + b',"mood":"fine"}'
    sample = Recording(str(write(path, [later]))).first
    assert sample.snapshot() == second(0, schema=7)
    assert "schema 7, this one reads 1" in sample.note
    assert "update gpudash" in sample.note


@pytest.mark.parametrize(
    ("version", "note"),
    [
        (fleet.FLEET_SCHEMA, ""),
        (7, f"schema 7, this one reads {fleet.FLEET_SCHEMA}): unknown values are left out"),
    ],
)
def test_a_newer_document_of_many_hosts_says_so(path: Path, version: int, note: str) -> None:
    many = fleet.encode(fleet.FleetSnapshot(taken_at=START, fleet=version))
    sample = Recording(str(write(path, [many]))).first
    assert sample.fleet().fleet == version
    assert note in sample.note
    assert bool(sample.note) == bool(note)


def test_a_newer_schema_that_cannot_be_read_says_what_to_do(path: Path) -> None:
    later = line(0, schema=7).replace(b'"processes":[', b'"processes":[7,')
    sample = Recording(str(write(path, [later]))).first
    with pytest.raises(WireError, match=r"newer gpudash .*update gpudash"):
        sample.snapshot()


def test_a_frame_that_unpacks_beyond_all_measure_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "host.jsonl.zst"
    path.write_bytes(frame(b" " * (69 << 20)))
    assert path.stat().st_size < 10_000
    with pytest.raises(WireError, match="unzstd"):
        Recording(str(path))


def frame(data: bytes) -> bytes:
    from gpudash.feed.recording.zstd import Compressor

    compressor = Compressor()
    return compressor.compress(data) + compressor.end()


@pytest.mark.parametrize(
    "content",
    [b"7\n" * (2 << 20), b"\n" * (4 << 20) + b"{"],
    ids=["short lines", "newlines and a line"],
)
def test_forty_frames_that_unpack_to_nothing_are_given_up(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "host.jsonl.zst"
    packed = frame(content)
    path.write_bytes(packed * 40)
    assert len(packed) < 4_000
    before = time.process_time()
    with pytest.raises(WireError, match=f"{path}: .*not a recording"):
        Recording(str(path))
    assert time.process_time() - before < 15


def test_samples_among_many_empty_lines_are_found(path: Path) -> None:
    content = b"\n" * 5000 + line(1) + b"\n" * 5000 + line(2) + b"\n" * 5000
    path.write_bytes(frame(content) if path.suffix == ".zst" else content)
    assert times(Recording(str(path))) == [1, 2]


def test_all_that_precedes_damage_is_read_and_the_damage_reported(tmp_path: Path) -> None:
    before = write(tmp_path / "before.zst", map(line, range(20))).read_bytes()
    path = write(tmp_path / "host.zst", map(line, range(40)))
    whole = path.read_bytes()
    assert open_recorded(Recording(str(path)), None).note == ""
    # What ends a frame of zstd stands behind its last line.
    start = len(before) - 7
    path.write_bytes(whole[:start] + b"garbage\n" + whole[start + 100 :])
    assert times(Recording(str(path))) == list(range(20))
    recorded = open_recorded(Recording(str(path)), None)
    assert recorded.sample() == second(19)
    assert recorded.note == f"{path} is damaged: samples behind the damage are missing"
    path.write_bytes(whole[:start])
    assert open_recorded(Recording(str(path)), None).note == ""


@pytest.mark.parametrize(("at", "is_told"), [(9, False), (60, False), (80, True), (7200, False)])
def test_a_time_without_a_sample_near_it_is_told(
    path: Path, at: int, is_told: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    recording = Recording(str(write(path, map(line, [0, 2, 4, 6, 7200, 7202]))))
    gap = f"no samples from {Span(second(6).taken_at, second(7200).taken_at)}"
    assert open_recorded(recording, f"+{at}s").note == (gap if is_told else "")
    options = parse(["--json", "--replay", str(path), "--at", f"+{at}s"])
    options.run(options)
    assert capfd.readouterr().err == (f"gpudash: {gap}\n" if is_told else "")


def test_many_samples_that_cannot_be_decoded_are_given_up(path: Path) -> None:
    broken = [line(number).replace(b'"processes":[', b'"processes":[7,') for number in range(100)]
    recording = Recording(str(write(path, [line(0), *broken, line(200)])))
    with pytest.raises(WireError, match=r"processes\[0\]"):
        after(recording, recording.first, 1)


def test_what_a_real_gpu_did_reads_as_it_was() -> None:
    """An H200 under driver 580: idle, a matrix product, a kernel of one block, then six processes.

    One of the six was stopped; the others computed a sixth of the time or less.
    """
    recording = Recording(str(Path(__file__).with_name("h200.jsonl.zst")))
    first = recording.first
    seconds = [first.snapshot(), *(each.snapshot() for each in recording.after(first))]
    gpus = [each.devices[0] for each in seconds]
    assert [gpus[at].status for at in (10, 20, 38, 60)] == ["free", "busy", "busy", "busy"]
    assert [gpus[at].gpu_utilization_percent for at in (10, 20, 38)] == [0, 100, 100]
    assert [gpus[at].sm_active_percent for at in (10, 20, 38)] == [0, 96.4, 0.8]
    assert [gpus[at].tensor_active_percent for at in (10, 20, 38)] == [0, 93.6, 0]
    assert gpus[20].throttled_sw_power_cap_percent == 100
    energy = [gpu.total_energy_mj or 0 for gpu in gpus]
    assert energy == sorted(energy)
    assert all(gpu.sm_active_percent is not None for gpu in gpus[2:])
    assert [each.rule for each in seconds[20].findings or ()] == ["power-capped"]
    stopped = {each.pid: each for each in seconds[-1].processes}[595]
    assert stopped.status == "stopped"
    assert (stopped.idle_seconds or 0) > 50
    assert all((each.idle_seconds or 0) < 10 for each in seconds[-1].processes if each != stopped)
