"""The table of nvidia-smi under other drivers than 535, beside what those printed."""

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from gpudash.model.details import DetailedDevice
from gpudash.model.snapshot import Snapshot
from gpudash.output.smi_table import table
from tests.factories import (
    make_device,
    make_host,
    make_process,
    make_process_device,
    make_snapshot,
)

CAPTURED = Path(__file__).parent / "captured"
MIB = 1 << 20


def under(driver: str, cuda: str | None = "12.8", **overrides: Any) -> Snapshot:
    """A host of one GPU, without processes unless they are given."""
    host = make_host(driver_version=driver, cuda_driver_version=cuda)
    return make_snapshot(**{"device_count": 1, "processes": (), "host": host, **overrides})


def detailed(**overrides: Any) -> DetailedDevice:
    return DetailedDevice(**{**structs.asdict(make_device()), **overrides})


def sizes(used: int, total: int) -> dict[str, int]:
    return {"memory_used_bytes": used * MIB, "memory_total_bytes": total * MIB}


def test_an_h200_under_driver_580() -> None:
    device = make_device(
        name="NVIDIA H200",
        pci_bus_id="00000000:00:06.0",
        persistence_mode=True,
        display_active=False,
        compute_mode="default",
        temperature_celsius=60,
        power_usage_mw=652_300,
        gpu_utilization_percent=100,
        **sizes(9983, 143771),
    )
    processes = [
        make_process(
            pid=pid,
            command_line=(program,),
            devices=(make_process_device(used_gpu_memory_bytes=used * MIB),),
        )
        for pid, program, used in (
            (1218, "/opt/torch/.venv/bin/python3", 1258),
            (1219, "python", 8710),
        )
    ]
    snapshot = under("580.159.04", "13.0", devices=(device,), processes=tuple(processes))
    shown = list(table(snapshot))
    theirs = (CAPTURED / "table-h200-580.txt").read_text().splitlines()
    assert shown[1:] == theirs[1:]


LINES: list[tuple[str, dict[str, Any], str]] = [
    (
        "545.23.08",
        {"power_usage_mw": 26_000, "enforced_power_limit_mw": 70_000, **sizes(255, 15360)},
        "              26W /  70W |    255MiB / 15360MiB |",
    ),
    (
        "550.120",
        {"power_usage_mw": None, "enforced_power_limit_mw": 200_000, **sizes(29, 2048)},
        "             N/A /  200W |      29MiB /   2048MiB |",
    ),
    (
        "570.133.07",
        {"power_usage_mw": None, "enforced_power_limit_mw": 115_000, **sizes(526, 8188)},
        "            N/A  /  115W |     526MiB /   8188MiB |",
    ),
    (
        "570.133.20",
        {"power_usage_mw": 145_000, "enforced_power_limit_mw": 1_000_000, **sizes(0, 183359)},
        "            145W / 1000W |       0MiB / 183359MiB |",
    ),
    (
        "575.57.08",
        {"power_usage_mw": None, "failed_fields": {"power_usage_mw": 999}, **sizes(0, 40960)},
        "           ERR!  /  700W |       0MiB /  40960MiB |",
    ),
    (
        "580.105.08",
        {"memory_used_bytes": None, "failed_fields": {"memory_used_bytes": 4}},
        "            412W /  700W |                  N/A   |",
    ),
    (
        "595.78",
        {"power_usage_mw": None, "enforced_power_limit_mw": None, "memory_used_bytes": None},
        "            N/A  /  N/A  | Not Supported          |",
    ),
]


@pytest.mark.parametrize(("driver", "overrides", "line"), LINES)
def test_the_values_of_a_gpu(driver: str, overrides: dict[str, Any], line: str) -> None:
    shown = list(table(under(driver, devices=(detailed(**overrides),))))
    assert f"| N/A   62C    P0{line}     87%          N/A |" in shown


@pytest.mark.parametrize(
    ("driver", "cuda", "line", "below"),
    [
        (
            "545.23.08",
            "12.3",
            "| NVIDIA-SMI 545.23.08              Driver Version: 545.23.08    "
            "CUDA Version: 12.3     |",
            "|-",
        ),
        (
            "550.142",
            "12.4",
            "| NVIDIA-SMI 550.142                Driver Version: 550.142        "
            "CUDA Version: 12.4     |",
            "|-",
        ),
        (
            "595.58.03",
            None,
            "| NVIDIA-SMI 595.58.03              Driver Version: 595.58.03      "
            "CUDA Version: N/A      |",
            "+-",
        ),
        (
            "610.43.02",
            "13.3",
            "| NVIDIA-SMI 610.43.02              KMD Version: 610.43.02     "
            "CUDA UMD Version: 13.3     |",
            "+-",
        ),
    ],
)
def test_the_versions_and_the_rule_below(
    driver: str, cuda: str | None, line: str, below: str
) -> None:
    shown = list(table(under(driver, cuda)))
    assert (shown[2], shown[3][:2]) == (line, below)


@pytest.mark.parametrize(
    ("driver", "gap", "line"),
    [
        (
            "550.142",
            " " * 89,
            "|    0   N/A  N/A      2221      G   /usr/bin/gnome-shell"
            "                          105MiB |",
        ),
        (
            "575.64.05",
            " " * 89,
            "|    0   N/A  N/A            2221      G   /usr/bin/gnome-shell"
            "                    105MiB |",
        ),
        (
            "610.43.02",
            "",
            "|    0   N/A  N/A            2221      G   /usr/bin/gnome-shell"
            "                    105MiB |",
        ),
    ],
)
def test_a_process_and_the_line_before_them(driver: str, gap: str, line: str) -> None:
    share = make_process_device(type="G", used_gpu_memory_bytes=105 * MIB)
    process = make_process(pid=2221, command_line=("/usr/bin/gnome-shell",), devices=(share,))
    shown = list(table(under(driver, processes=(process,))))
    assert (shown[-8], shown[-2]) == (gap, line)


@pytest.mark.parametrize(
    ("driver", "name", "shown"),
    [
        (
            "560.35.03",
            "/tmp/localai/backend_data/backend-assets/util/llama-cpp-rpc-server",
            "...nd-assets/util/llama-cpp-rpc-server",
        ),
        (
            "580.65.06",
            "/usr/share/elasticsearch/jdk/bin/java",
            "...re/elasticsearch/jdk/bin/java",
        ),
    ],
)
def test_a_long_name_loses_its_beginning(driver: str, name: str, shown: str) -> None:
    process = make_process(command_line=(name, "--argument"))
    text = "\n".join(table(under(driver, processes=(process,))))
    assert f"   {shown}      " in text


OLD_MIG = """\
+-----------------------------------------------------------------------------------------+
| MIG devices:                                                                            |
+------------------+----------------------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |                     Memory-Usage |        Vol|      Shared           |
|      ID  ID  Dev |                       BAR1-Usage | SM     Unc| CE ENC DEC OFA JPG    |
|                  |                                  |        ECC|                       |
|==================+==================================+===========+=======================|
|  0    1   0   0  |              37MiB / 40192MiB    | 14      0 |  3   0    2    0    0 |
|                  |                 0MiB / 65535MiB  |           |                       |
+------------------+                                  +-----------+-----------------------+
|  0    1   1   1  |                                  | 28      0 |  3   0    2    0    0 |
|                  |                                  |           |                       |
+------------------+----------------------------------+-----------+-----------------------+
"""
NEW_MIG = """\
+-----------------------------------------------------------------------------------------+
| MIG devices:                                                                            |
+------------------+----------------------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |              Shared Memory-Usage |        Vol|        Shared         |
|      ID  ID  Dev |                Shared BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |
|                  |                                  |        ECC|                       |
|==================+==================================+===========+=======================|
|  0    1   0   0  |              37MiB / 40192MiB    | 14      0 |  3   0    2    0    0 |
|                  |               0MiB / 65535MiB    |           |                       |
+------------------+----------------------------------+-----------+-----------------------+
|  0    1   1   1  |              37MiB / 40192MiB    | 28      0 |  3   0    2    0    0 |
|                  |               0MiB / 65535MiB    |           |                       |
+------------------+----------------------------------+-----------+-----------------------+
"""


@pytest.mark.parametrize(
    ("driver", "expected"),
    [
        ("550.54.14", OLD_MIG),
        (
            "560.35.03",
            OLD_MIG.replace("      Shared           |", "        Shared         |").replace(
                "CE ENC DEC OFA JPG    ", "CE ENC  DEC  OFA  JPG "
            ),
        ),
        ("580.126.09", NEW_MIG),
    ],
)
def test_compute_instances_of_a_gpu_instance(driver: str, expected: str) -> None:
    gpu = make_device(mig_mode=True)
    instances = [
        detailed(
            index=number,
            uuid=f"MIG-{number}",
            parent_uuid=gpu.uuid,
            gpu_instance_id=1,
            compute_instance_id=number,
            multiprocessor_count=count,
            sram_uncorrected_volatile_count=0,
            copy_engine_count=3,
            encoder_count=0,
            decoder_count=2,
            ofa_count=0,
            jpeg_count=0,
            bar1_used_bytes=0,
            bar1_total_bytes=65535 * MIB,
            **sizes(37, 40192),
        )
        for number, count in enumerate((14, 28))
    ]
    shown = "\n".join(table(under(driver, devices=(gpu, *instances))))
    assert f"\n\n{expected}" in shown


def test_no_instances() -> None:
    shown = list(table(under("550.163.01", devices=(make_device(mig_mode=True),))))
    assert f"|  {'No MIG devices found':<87}|" in shown
