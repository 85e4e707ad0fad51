from itertools import product
from pathlib import Path

from tests.e2e.run import Line, complete, each_of, gpudash
from tests.e2e.stream import streaming
from tests.holders import Holder


def test_garbage_is_null(fakenvml: Path, job: Holder) -> None:
    run = gpudash(
        *("--once", "--json"),
        library=fakenvml,
        DEVICES=2,
        MODEL="geforce",
        PROCS_PER_DEVICE=1,
        PIDS=job.pid,
        GARBAGE="nvmlDeviceGetUtilizationRates:1,nvmlDeviceGetTemperature:1,"
        "nvmlDeviceGetTemperatureV:1,nvmlDeviceGetPowerUsage:1,nvmlDeviceGetFanSpeed:1,"
        "nvmlDeviceGetClockInfo:1,nvmlDeviceGetPerformanceState:1,nvmlDeviceGetMemoryInfo:1,"
        "nvmlDeviceGetProcessUtilization:1,nvmlDeviceGetEncoderUtilization:1",
    )
    assert run.status == 0
    good, bad = run.snapshot.devices
    assert complete(good)
    assert bad.uuid is not None
    for name in (
        "gpu_utilization_percent",
        "memory_utilization_percent",
        "encoder_utilization_percent",
        "temperature_celsius",
        "power_usage_mw",
        "fan_speed_percent",
        "sm_clock_mhz",
        "performance_state",
        "memory_used_bytes",
    ):
        assert getattr(bad, name) is None, name
    (process,) = run.snapshot.processes
    assert process.devices[1].sm_utilization_percent is None
    told = {"DEVICES": 2, "PROCS_PER_DEVICE": 2, "GARBAGE": "*:*"}
    everything = gpudash("--once", "--json", library=fakenvml, **told)
    assert everything.stderr == ""
    assert len(everything.snapshot.devices) == 2
    assert everything.snapshot.processes == ()


ENDED = (1, "", "gpudash: the driver's library ended the process that queried it\n")


def test_a_library_that_ends_the_process_does_not_do_so_in_silence(fakenvml: Path) -> None:
    lines: list[Line] = [
        (words, {"EXIT": f"nvmlDeviceGetSerial:1:{status}"})
        for words, status in product(("--once", "--once --json", "--json"), (0, 7))
    ]
    assert {*each_of(lines, fakenvml)} == {ENDED}


def test_what_a_library_prints_is_not_in_our_output(fakenvml: Path) -> None:
    noisy = {"DEVICES": 1, "PRINT": "nvmlDeviceGetName:*,nvmlDeviceGetSerial:*"}
    run = gpudash("--once", "--json", library=fakenvml, **noisy)
    assert run.snapshot.devices[0].name is not None
    assert "noise from nvmlDeviceGetName" in run.stderr
    with streaming(fakenvml, **noisy) as stream:
        assert stream.next().devices[0].serial is not None
