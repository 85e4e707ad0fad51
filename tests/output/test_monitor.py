import pytest

from gpudash.model.fault import Fault
from gpudash.model.process import Process
from gpudash.model.text import clean
from gpudash.output.monitor import (
    GPM_IDS,
    device_columns,
    device_lines,
    headings,
    process_columns,
    process_headings,
    process_lines,
)
from tests.factories import (
    gpu_uuid,
    make_device,
    make_host,
    make_process,
    make_process_device,
    make_snapshot,
)

OLD = make_snapshot(1, host=make_host(driver_version="535.261.03"))
NEW = make_snapshot(1, host=make_host(driver_version="580.159.04"))

CAPTURED = (
    "#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa"
    "   mclk   pclk  pviol  tviol     fb   bar1   ccpm  sbecc  dbecc    pci  rxpci  txpci \n"
    "#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %      %      %      %      %"
    "    MHz    MHz      %   bool     MB     MB     MB   errs   errs   errs   MB/s   MB/s \n"
)
"""What nvidia-smi 535 prints above `dmon -s pucvmet -o DT`."""


def test_the_headings_are_those_of_nvidia_smi() -> None:
    assert headings(device_columns("pucvmet", OLD), "DT") == CAPTURED
    assert headings(device_columns("e", OLD), "").startswith(
        "# gpu  sbecc  dbecc    pci \n# Idx   errs"
    )
    assert headings(device_columns("p", OLD), "D").startswith("#Date        gpu    pwr")
    assert headings(device_columns("p", OLD), "T").startswith("#Time        gpu    pwr")


@pytest.mark.parametrize(
    ("letters", "shown"),
    [
        (
            "u",
            "# gpu         pid  type    sm    mem    enc    dec    command\n"
            "# Idx           #   C/G     %      %      %      %    name\n",
        ),
        (
            "mu",
            "# gpu         pid  type    fb   ccpm     sm    mem    enc    dec    command\n"
            "# Idx           #   C/G    MB     MB      %      %      %      %    name\n",
        ),
    ],
)
def test_the_headings_of_processes_are_those_of_nvidia_smi(letters: str, shown: str) -> None:
    assert process_headings(OLD, process_columns(letters, OLD), "") == shown


@pytest.mark.parametrize("letters", ["p", "u", "c", "v", "m", "e", "t", "pucvmet"])
@pytest.mark.parametrize("stamp", ["", "D", "T", "DT"])
def test_values_stand_below_their_headings(letters: str, stamp: str) -> None:
    snapshot = make_snapshot(2)
    shown = headings(device_columns(letters, snapshot), stamp).splitlines()
    shown += "".join(device_lines(snapshot, device_columns(letters, snapshot), stamp)).splitlines()
    assert len({len(line) for line in shown}) == 1


def test_a_line_of_a_gpu() -> None:
    device = make_device(protected_memory_used_bytes=3 << 20)
    (line,) = device_lines(make_snapshot(devices=(device,)), device_columns("pm", OLD), "")
    assert line == "    0    412     62     70  40960      -      3 \n"


def test_instances_have_no_line_of_their_own() -> None:
    gpu = make_device()
    instance = make_device(uuid="MIG-1", parent_uuid=gpu.uuid)
    assert (
        len([*device_lines(make_snapshot(devices=(gpu, instance)), device_columns("p", OLD), "")])
        == 1
    )


def processes(*found: Process) -> list[str]:
    snapshot = make_snapshot(1, processes=found, host=OLD.host)
    return [*process_lines(snapshot, process_columns("um", snapshot), "")]


def test_processes_stand_by_their_pids() -> None:
    first = make_process_device(list_position=0)
    second = make_process_device(list_position=1)
    lines = processes(
        make_process(pid=12345, devices=(first,)), make_process(pid=7, devices=(second,))
    )
    assert lines == [
        "    0          7     C     85     40      -      -  40960      0    python         \n",
        "    0      12345     C     85     40      -      -  40960      0    python         \n",
    ]


@pytest.mark.parametrize(
    ("started_as", "shown"),
    [
        ("/opt/envs/train/bin/python3", "python3"),
        ("/init_of_a_container", "/init_of_a_cont"),
        ("a_program_of_a_long_name", "a_program_of_a_"),
    ],
)
def test_a_process_has_the_name_of_its_program(started_as: str, shown: str) -> None:
    (line,) = processes(make_process(name="pt_main_thread", command_line=(started_as, "-v")))
    assert line.endswith(f"    {shown:<15}\n")


def test_pmon_of_driver_580() -> None:
    share = make_process_device(
        sm_utilization_percent=48, memory_utilization_percent=0, encoder_utilization_percent=0
    )
    process = make_process(pid=3356, command_line=("python3",), devices=(share,))
    host = make_host(driver_version="580.159.04")
    snapshot = make_snapshot(1, processes=(process,), host=host)
    columns = process_columns("u", snapshot)
    # As on an H200.
    assert process_headings(snapshot, columns, "") == (
        "# gpu         pid   type     sm    mem    enc    dec    jpg    ofa    command \n"
        "# Idx           #    C/G      %      %      %      %      %      %    name \n"
    )
    assert [*process_lines(snapshot, columns, "")] == [
        "    0       3356     C     48      0      -      -      -      -    python3        \n"
    ]


def test_a_process_that_was_idle_has_no_sample() -> None:
    share = make_process_device(sm_utilization_percent=0, memory_utilization_percent=0)
    (line,) = processes(make_process(devices=(share,)))
    assert line.split()[3:7] == ["-"] * 4


def test_a_gpu_without_processes_has_a_line() -> None:
    (line,) = processes()
    assert line.split() == ["0", *["-"] * 9]


def test_a_gpu_whose_processes_are_unknown_is_not_one_without() -> None:
    fault = Fault(source="processes", message=clean("processes unknown"), uuid=gpu_uuid(0))
    snapshot = make_snapshot(2, processes=(), errors=(fault,))
    unknown, free = process_lines(snapshot, process_columns("u", OLD), "")
    assert unknown.split() == ["0", "N/A", *["-"] * 5, "N/A"]
    assert free.split() == ["1", *["-"] * 7]


def test_what_performance_monitoring_measures_is_a_column_by_its_number() -> None:
    device = make_device(sm_active_percent=87.9, pcie_tx_bytes_per_second=3 << 20)
    (line,) = device_lines(
        make_snapshot(devices=(device,)), device_columns("p", OLD, (2, 20, 1)), ""
    )
    assert line == "    0    412     62     70         87         3         -\n"
    shown = headings(device_columns("p", OLD, GPM_IDS), "").splitlines()
    assert shown[0].split() == ["#", "gpu", "pwr", "gtemp", "mtemp", *(f"id={n}" for n in GPM_IDS)]
    assert len(shown[0]) == len(shown[1])


def test_performance_monitoring_of_driver_550() -> None:
    snapshot = make_snapshot(1, host=make_host(driver_version="550.163.01"))
    assert headings(device_columns("c", snapshot, (1, 20)), "") == (
        "# gpu   mclk   pclk       id=1      id=20 \n# Idx    MHz    MHz        GPM        GPM \n"
    )


def test_performance_monitoring_of_driver_580() -> None:
    # As on an H200.
    assert headings(device_columns("c", NEW, (*range(1, 14), 20, 21)), "") == (
        "# gpu   mclk   pclk      gract     smutil      smocc    intutil     mmaact      dfmat"
        "      hmmat       id=8      immat       dram       fp64       fp32       fp16      pcitx"
        "      pcirx \n"
        "# Idx    MHz    MHz      GPM:%      GPM:%      GPM:%      GPM:%      GPM:%      GPM:%"
        "      GPM:%      GPM:%      GPM:%      GPM:%      GPM:%      GPM:%      GPM:%  GPM:MiB/s"
        "  GPM:MiB/s \n"
    )
    device = make_device(
        memory_clock_mhz=3201,
        sm_clock_mhz=1980,
        graphics_active_percent=99.5,
        sm_active_percent=0.8,
        sm_occupancy_percent=0.0,
        pcie_tx_bytes_per_second=3137526,
        pcie_rx_bytes_per_second=None,
    )
    columns = device_columns("c", NEW, (1, 2, 3, 20, 21))
    assert [*device_lines(make_snapshot(devices=(device,)), columns, "")] == [
        "    0   3201   1980         99          0          0          2          - \n"
    ]


def test_the_units_of_metrics_without_a_known_name() -> None:
    names, units = headings(device_columns("c", NEW, (30, 60, 61)), "").splitlines()
    assert names.split()[-3:] == ["id=30", "id=60", "id=61"]
    assert units.split()[-3:] == ["GPM:%", "GPM:MiB/s", "GPM:MiB/s"]
