import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.analysis.health.findings import statuses
from gpudash.fleet import remote_smi
from gpudash.model.errors import WireError
from gpudash.model.snapshot import Snapshot

HEADING = (
    "index, uuid, name, driver_version, pstate, utilization.gpu [%], memory.total [MiB], "
    "memory.used [MiB], temperature.gpu, power.draw [W], clocks.current.sm [MHz], mig.mode.current"
)
HOST = "lab7\n1234.5 99.0\n0.5 0.4 0.3 1/99 4242\nMemTotal: 1024 kB\nMemAvailable: 256 kB\n8"


def read(query: str, *, listed: str = "", apps: str = "", running: str = "") -> Snapshot:
    sections = ("gpudash-smi", HOST, query, listed, apps, running)
    line = "".join(f"{section}\x1d" for section in sections).replace("\n", "\x1e")
    return remote_smi.decode(line.encode())


def test_reads_values_in_our_units_and_what_is_missing_as_none() -> None:
    snapshot = read(
        f"{HEADING}\n0, GPU-1, NVIDIA H100, 550.1, P0, 33, 81920, 1024, 45, 123.45, 1755, [N/A]\n"
        "1, GPU-2, NVIDIA H100, 550.1, P8, [N/A], [Not Supported], -1, nan, inf, 1e99, Disabled"
    )
    first, second = snapshot.devices
    assert (first.gpu_utilization_percent, first.memory_total_bytes) == (33, 80 << 30)
    assert (first.power_usage_mw, first.sm_clock_mhz, first.performance_state) == (123_450, 1755, 0)
    assert first.mig_mode is None
    assert second.mig_mode is False
    for name in ("gpu_utilization_percent", "memory_total_bytes", "memory_used_bytes"):
        assert getattr(second, name) is None
    assert (second.temperature_celsius, second.power_usage_mw, second.sm_clock_mhz) == (None,) * 3
    host = snapshot.host
    assert (host.hostname, host.driver_version, host.cpu_count) == ("lab7", "550.1", 8)
    assert (host.memory_total_bytes, host.memory_used_bytes) == (1 << 20, 768 << 10)
    assert (host.uptime_seconds, host.load_average) == (1234.5, (0.5, 0.4, 0.3))


def test_processes_have_their_owner_and_a_masked_bounded_command_line() -> None:
    snapshot = read(
        f"{HEADING}\n0, GPU-1, A, 550, P0, 0, 100, 50, 40, 1, 1, [N/A]",
        apps="GPU-1, 42, 512\nGPU-1, 43, [N/A]\nGPU-9, 44, 1",
        running=f"  42 alice  2048 /usr/bin/python train.py --token hunter2 {'x' * 500}\n"
        "43 bob 1 [kthread]\nnonsense",
    )
    first, second = snapshot.processes
    assert (first.pid, first.username, first.name) == (42, "alice", "python")
    assert (first.used_gpu_memory_bytes, first.resident_memory_bytes) == (512 << 20, 2 << 20)
    assert first.command_line[:4] == ("/usr/bin/python", "train.py", "--token", "***")
    assert sum(map(len, first.command_line)) <= 200
    assert (second.pid, second.used_gpu_memory_bytes) == (43, None)


def test_a_gpu_in_mig_mode_has_its_instances_whose_use_is_not_known() -> None:
    snapshot = read(
        f"{HEADING}\n0, GPU-1, A100, 550, P0, [N/A], 40960, 10, 40, 1, 1, Enabled",
        listed="GPU 0: A100 (UUID: GPU-1)\n  MIG 1g.5gb     Device  0: (UUID: MIG-1)\n"
        "  MIG 2g.10gb     Device  1: (UUID: MIG-2)",
        apps="MIG-2, 7, 100",
    )
    assert [each.parent_uuid for each in snapshot.devices] == [None, "GPU-1", "GPU-1"]
    assert [each.label for each in snapshot.devices] == ["0", "0:0", "0:1"]
    words = {key: state.word for key, state in statuses(snapshot).items()}
    assert words == {"GPU-1": "divided", "MIG-1": "unknown", "MIG-2": "in use"}


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("[GPU is lost]", "lost"),
        ("[GPU requires reset]", "reset-required"),
        ("[Unknown Error]", "failed"),
    ],
)
def test_a_broken_gpu_keeps_its_row(text: str, state: str) -> None:
    row = ", ".join([text] * 8)
    (device,) = read(f"{HEADING}\n3, GPU-3, {text}, {text}, {row}").devices
    assert (device.index, device.state) == (3, state)


def test_a_driver_that_does_not_answer_is_a_fault_with_its_words() -> None:
    snapshot = read("NVIDIA-SMI has failed because it couldn't communicate with the driver.")
    assert snapshot.devices == ()
    assert "couldn't communicate" in snapshot.errors[0].message
    assert read("").errors[0].source == "nvml"


@given(st.binary(max_size=300), st.booleans())
def test_anything_is_a_snapshot_or_one_error(noise: bytes, in_table: bool) -> None:
    line = remote_smi.START + noise
    if in_table:
        table = HEADING.encode() + b"\x1e" + noise
        line = b"\x1d".join((b"gpudash-smi", b"h", table, noise, noise, noise))
    try:
        snapshot = remote_smi.decode(line)
    except WireError:
        return
    assert snapshot.host.hostname.isprintable()


def test_the_script_is_read_back(tmp_path: Path) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text(
        "#!/bin/sh\ncase $* in\n*mig.mode*) echo 'Field is not valid'; exit 2;;\n"
        '*compute-apps*) echo "GPU-1, $PPID, 5";;\n'
        f"*) echo '{HEADING}'; echo '0, GPU-1, A, 440, P0, 0, 100, 50, 40, 1, 1, [N/A]';;\nesac\n"
    )
    smi.chmod(0o755)
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    words = ["sh", "-c", remote_smi.SCRIPT]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environ) as process:
        line = process.stdout.readline()
        process.kill()
    snapshot = remote_smi.decode(line.rstrip(b"\n"))
    (found,) = snapshot.processes
    assert (found.pid, found.name) == (process.pid, "sh")
    assert snapshot.devices[0].uuid == "GPU-1"
    assert snapshot.host.memory_total_bytes


def test_the_script_has_no_quote_that_would_end_it() -> None:
    assert not set("'!\n") & set(remote_smi.SCRIPT)
