import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpudash.model.device import Device
from gpudash.model.fault import Fault
from gpudash.model.process import LastProcess, LastRead, Process
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import clean, width
from gpudash.output.table import painter, render, shown
from tests.factories import (
    GIB,
    gpu_uuid,
    make_device,
    make_host,
    make_process,
    make_process_device,
    make_snapshot,
)
from tests.strategies import snapshots

SGR = re.compile(r"\x1b\[[0-9;]*m")


def lines(snapshot: Snapshot, **options: Any) -> list[str]:
    text = render(snapshot, **options)
    assert text.endswith("\n")
    return text.split("\n")[:-1]


def line_of(start: str, snapshot: Snapshot, **options: Any) -> str:
    (found,) = (line for line in lines(snapshot, **options) if line.startswith(start))
    return found


def gpu_rows(snapshot: Snapshot) -> list[str]:
    return [line for line in lines(snapshot) if re.match(r"\d(:\d)?  ", line)]


@given(snapshots(), st.integers(20, 300), st.booleans())
def test_any_snapshot_fits_the_terminal_and_colour_changes_nothing_but_colour(
    snapshot: Snapshot, cells: int, ascii: bool
) -> None:
    plain = render(snapshot, width=cells, ascii=ascii)
    assert all(width(line) <= cells for line in plain.split("\n"))
    assert all(line.isprintable() for line in plain.split("\n"))
    assert plain.isascii() or not ascii
    assert SGR.sub("", render(snapshot, width=cells, color=True, ascii=ascii)) == plain


def test_header_names_host_and_driver() -> None:
    first, second, *_ = lines(make_snapshot())
    assert first.startswith("node7  driver 570.86.15  CUDA 12.8  ")
    assert re.search(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d$", first)
    assert second.startswith("4 GPUs: 4 busy  ")
    assert second.endswith("160G of 320G, 1649W")


def test_made_up_host_says_so() -> None:
    assert " simulated " in lines(make_snapshot(host=make_host(simulated=True)))[0]


def test_eight_gpus_are_eight_rows_of_one_shape() -> None:
    rows = gpu_rows(make_snapshot(8))
    assert len(rows) == 8
    assert rows[3].split() == [
        "3", "H100", "80GB", "HBM3", "████▍", "87%", "██▌", "40.0G/80.0G", "50%", "62C",
        "412/700W", "busy",
    ]  # fmt: skip
    assert len({row[1:] for row in rows}) == 1


def test_numbers_end_in_one_column() -> None:
    devices = (make_device(index=0), make_device(index=1, memory_used_bytes=3 << 20))
    rows = gpu_rows(make_snapshot(devices=devices))
    assert len({row.index("/80.0G") for row in rows}) == 1


def test_lost_gpu_keeps_its_row_with_the_fault_in_words() -> None:
    message = "GPU 1 fell off the bus (Xid 79): see dmesg, then reset it or reboot the host"
    lost = Device(
        index=1,
        uuid=gpu_uuid(1),
        name="NVIDIA H100 80GB HBM3",
        state="lost",
        fault=Fault(source="nvml", code=15, message=message),
    )
    snapshot = make_snapshot(devices=(make_device(), lost), processes=())
    row = line_of("1 ", snapshot, width=140)
    assert row == f"1    H100 80GB HBM3  LOST: {message}"
    assert message in " ".join(render(snapshot, width=80).split())
    assert "idle" not in render(snapshot)


def test_sleeping_gpu_is_not_called_idle() -> None:
    asleep = Device(index=0, name="NVIDIA GeForce RTX 4060 Laptop GPU", state="asleep")
    text = render(make_snapshot(devices=(asleep,), processes=()))
    assert "RTX 4060 Laptop  asleep: powered down, not woken to be read\n" in text
    assert "idle" not in text


def test_mig_instances_stand_under_their_gpu() -> None:
    instance = make_device(
        index=2, uuid="MIG-a", parent_uuid=gpu_uuid(0), name="NVIDIA H100 80GB HBM3 MIG 1g.10gb"
    )
    snapshot = make_snapshot(devices=(make_device(), instance, make_device(index=1)))
    labels = [row[:18].rstrip() for row in gpu_rows(snapshot)]
    assert labels == ["0    H100 80GB HBM", "0:2    MIG 1g.10gb", "1    H100 80GB HBM"]


def test_memory_of_no_listed_process_is_reported_in_words() -> None:
    device = make_device(memory_unaccounted_bytes=12 * GIB)
    text = render(make_snapshot(devices=(device,)))
    assert "warn: GPU 0: 12.0 GiB held by no listed process\n" in text


def test_process_row_has_owner_and_command() -> None:
    shares = tuple(make_process_device(index=index) for index in range(8))
    process = make_process(devices=shares, command_line=("/opt/conda/bin/python", "train.py"))
    row = line_of("4242", make_snapshot(8, processes=(process,)), width=120).split()
    assert row[:3] == ["4242", "alice", "0-7"]
    assert row[-2:] == ["/opt/conda/bin/python", "train.py"]


def test_narrow_table_shortens_the_program_of_every_process() -> None:
    processes = (
        make_process(pid=1001, command_line=("/opt/conda/bin/python", "a.py", "x" * 99)),
        make_process(pid=1002, command_line=("/usr/bin/python3", "b.py")),
    )
    text = render(make_snapshot(processes=processes))
    assert " python a.py xx" in text
    assert " python3 b.py\n" in text


def test_long_command_ends_in_an_ellipsis() -> None:
    snapshot = make_snapshot(processes=(make_process(command_line=("python", "日本" * 99)),))
    assert lines(snapshot)[-1].endswith("…")
    assert lines(snapshot, ascii=True)[-1].endswith("...")


def test_hidden_process_keeps_its_row_and_its_reason() -> None:
    hidden = Process(pid=812, devices=(make_process_device(),), hidden_reason="not ours to see")
    assert line_of("812", make_snapshot(processes=(hidden,))).endswith("(not ours to see)")


def test_no_processes_are_said_in_words() -> None:
    assert lines(make_snapshot(processes=()))[-1] == "No running processes found"


def test_processes_that_could_not_be_listed_are_not_none() -> None:
    fault = Fault(source="processes", message=clean("GPU 1: processes unknown"), uuid=gpu_uuid(1))
    text = "\n".join(lines(make_snapshot(2, processes=(), errors=(fault,))))
    assert "No running processes found; those on GPU 1 are not known" in text


def test_errors_stand_at_the_end() -> None:
    errors = (Fault(source="processes", message="other namespaces are hidden"),)
    assert lines(make_snapshot(errors=errors))[-1] == "! other namespaces are hidden"


def test_host_without_gpus_says_so() -> None:
    assert lines(make_snapshot(0))[1] == "No GPUs"


def test_colour_marks_the_hot_card() -> None:
    hot = make_device(temperature_celsius=95, slowdown_temperature_celsius=90)
    assert "\x1b[1;31m95\x1b[0m" in render(make_snapshot(devices=(hot,)), color=True)


def test_colour_leaves_the_padding_bare() -> None:
    assert painter(True)("  97 ", "green") == "  \x1b[32m97\x1b[0m "


def test_nothing_to_see_is_not_coloured() -> None:
    assert painter(True)("   ", "red") == "   "
    assert painter(True)("97", "plain") == "97"


def test_without_colour_text_stays_as_it_is() -> None:
    assert painter(False)("97", "red") == "97"


def test_shown_text_is_harmless() -> None:
    assert shown("\x1b]52;c;\x07名", ascii=False) == "\\x1b]52;c;\\x07名"
    assert shown("名", ascii=True) == "\\u540d"


def test_a_gpu_that_does_not_answer_shows_what_it_held_with_its_age() -> None:
    holder = LastProcess(
        pid=4242, username=clean("alice"), name=clean("python"), used_gpu_memory_bytes=31 * GIB
    )
    last = LastRead(
        age_seconds=12, memory_used_bytes=32 * GIB, memory_total_bytes=80 * GIB, processes=(holder,)
    )
    device = Device(index=0, uuid=gpu_uuid(0), state="not-answering", last_read=last)
    text = " ".join(render(make_snapshot(devices=(device,)), width=100).split())
    assert "12s ago: 32.0G/80.0G in use, by alice python (PID 4242, 31.0G)" in text


def test_a_clock_of_five_digits_is_shown_whole() -> None:
    device = make_device(memory_clock_mhz=10501, max_memory_clock_mhz=10501)
    assert "10501/10501MHz" in render(make_snapshot(devices=(device,)), width=200)
