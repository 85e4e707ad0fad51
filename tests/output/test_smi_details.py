"""`-q` and `-q -x` beside what nvidia-smi 535.261 printed on the stand-in, byte for byte."""

import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gpudash.model import wire
from gpudash.model.details import ON_REQUEST, DetailedDevice
from gpudash.model.errors import UsageError
from gpudash.model.records import SampleBuffer
from gpudash.model.snapshot import Snapshot
from gpudash.output import smi_details, smi_xml
from gpudash.output.smi_details import details, reads, sections
from tests.e2e.forking import GPUDASH
from tests.e2e.run import each_of, gpudash
from tests.factories import make_device, make_process, make_snapshot
from tests.fakenvml.build import environment
from tests.holders import Holders, pid_list
from tests.waiting import LIMIT_SECONDS

CAPTURED = Path(__file__).parent / "captured"
SETTINGS: dict[str, object] = {
    "DEVICES": 1,
    "TIME": 1_795_000_000,
    "DRIVER": "535.261.03",
    "WORN": 1,
}
PLAIN = {"TABLE": 0, "FAIL": "nvmlDeviceGetSupportedMemoryClocks:*:3"}
BOARDS: dict[str, dict[str, object]] = {
    "mig": {"MIG": 1},
    "old": {"OLD": 1, **PLAIN},
    "geforce": {"MODEL": "geforce", **PLAIN},
    "pcie": {"MODEL": "pcie", "GRACE": 1, **PLAIN},
}
# What nvidia-smi 535 takes.
SECTIONS = (
    "MEMORY,UTILIZATION,ECC,TEMPERATURE,POWER,CLOCK,COMPUTE,PIDS,PERFORMANCE,SUPPORTED_CLOCKS,"
    "PAGE_RETIREMENT,ACCOUNTING,ENCODER_STATS,SUPPORTED_GPU_TARGET_TEMP,VOLTAGE,FBC_STATS,"
    "ROW_REMAPPER,RESET_STATUS"
)

# The moment; what nvidia-smi reads from its own unnamed table, which the stand-in makes up: the
# driver's type of a process, and its answers for voltage, host, sparse operation and IBMNPU.
LEFT_OUT = re.compile(
    r"((?:Timestamp|Addressing Mode|Relaxed Ordering Mode|Host Max|Sparse Operation Mode"
    r"|GPU T\.Limit Temp|Type) +: |<(?:timestamp|addressing_mode|relaxed_ordering_mode"
    r"|max_host_link_gen|sparse_operation_mode|gpu_temp_tlimit|type)>).*"
)
NO_VOLTAGE = "0.000 mV"


def comparable(text: str) -> list[str]:
    return LEFT_OUT.sub(r"\1", text).replace(NO_VOLTAGE, "N/A").splitlines()


PRINTED = {
    "mig.txt": "",
    "mig.xml": "-x",
    "mig-sections.txt": f"-d {SECTIONS}",
    "old.txt": "",
    "old.xml": "-x",
    "old-sections.txt": f"-d {SECTIONS}",
    "geforce.xml": "-x",
    "pcie.txt": "",
}


def test_every_line_beside_what_nvidia_smi_printed(
    monkeypatch: pytest.MonkeyPatch, fakenvml: Path
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    lines = [(f"-q {words}", BOARDS[re.split("[-.]", name)[0]]) for name, words in PRINTED.items()]
    for name, (status, text, _) in zip(PRINTED, each_of(lines, fakenvml, **SETTINGS), strict=True):
        assert status == 0
        assert comparable(text) == comparable((CAPTURED / f"details-{name}").read_text())


@pytest.mark.parametrize(
    "settings",
    [
        *BOARDS.values(),
        {},
        {"MODEL": "pcie"},
        {"MODEL": "geforce", "WORN": 2},
        {"WORN": 2},
        {"WORN": 0},
        {"ANSWER": "nvmlDeviceGetSramEccErrorStatus:*:1"},
        {"ANSWER": "nvmlDeviceGetRemappedRows:1:3/2/1/1"},
        {"FABRIC": "3:0:0:1"},
        {"FAIL": "nvmlDeviceGetRowRemapperHistogram:*:3"},
        {"FAIL": "nvmlDeviceGetRowRemapperHistogram:*:3,nvmlDeviceGetRemappedRows:*:3"},
    ],
    ids=str,
)
def test_every_line_beside_nvidia_smi(
    nvidia_smi: str,
    fakenvml: Path,
    holders: Holders,
    settings: dict[str, object],
) -> None:
    pids = pid_list(holders(4))
    wanted = {**SETTINGS, "DEVICES": 2, "PROCS_PER_DEVICE": 2, "PIDS": pids, **settings}
    env = environment(fakenvml, **wanted)
    for words in ((), ("-x",), ("-d", SECTIONS), ("-i", "1"), ("-u",), ("-u", "-x")):
        theirs = subprocess.run(
            [nvidia_smi, "-q", *words], env=env, capture_output=True, text=True, check=True
        )
        mine = gpudash("-q", *words, library=fakenvml, **wanted)
        assert comparable(mine.text) == comparable(theirs.stdout)


def elements(document: str) -> list[str]:
    """Return the elements of a GPU, indented, without those of clocks and processes."""
    found = []

    def walk(element: ElementTree.Element, depth: int) -> None:
        if element.tag not in ("supported_mem_clock", "process_info"):
            found.append("\t" * depth + element.tag)
            for each in element:
                walk(each, depth + 1)

    gpu = ElementTree.fromstring(document).find("gpu")
    assert gpu is not None
    walk(gpu, 0)
    return found


def test_the_elements_of_driver_580_are_those_that_its_nvidia_smi_printed(fakenvml: Path) -> None:
    run = gpudash("-q", "-x", library=fakenvml, DRIVER="580.159.04", DEVICES=1)
    assert elements(run.text) == (CAPTURED / "details-elements-580.txt").read_text().splitlines()
    lines = gpudash("-q", library=fakenvml, DRIVER="580.159.04", DEVICES=1).text.splitlines()
    assert {line.index(": ") for line in lines if ": " in line} == {55}


def test_what_only_newer_drivers_answer(fakenvml: Path) -> None:
    answer = "nvmlDeviceGetRemappedRows_v2:0:2/1"
    settings = {"DRIVER": "580.159.04", "DEVICES": 1, "GRACE": 1, "ANSWER": answer}
    gpu = ElementTree.fromstring(gpudash("-q", "-x", library=fakenvml, **settings).text).find("gpu")
    assert gpu is not None
    expected = {
        "pdi": "0x7a0be3dbdf8d5511",
        "capabilities/egm": "enabled",
        "ecc_errors/channel_repair_pending": "Yes",
        "ecc_errors/tpc_repair_pending": "No",
        "ecc_errors/unrepairable_memory": "No",
        "remapped_rows/remapped_row_corr_inactive": "2",
        "remapped_rows/remapped_row_unc_inactive": "1",
        "display_mode": "Requested functionality has been deprecated",
        "module_power_readings/average_power_draw": "488.29 W",
        "platformInfo/tray_index": "15",
    }
    assert {path: gpu.findtext(path) for path in expected} == expected


def test_what_is_not_ready_is_not_there_yet(fakenvml: Path) -> None:
    settings = {"DEVICES": 1, "FAIL": "nvmlDeviceGetLastBBXFlushTime:0:27"}
    gpu = ElementTree.fromstring(gpudash("-q", "-x", library=fakenvml, **settings).text).find("gpu")
    assert gpu.findtext("inforom_bbx_flush/latest_timestamp") == "N/A"


def test_a_board_outside_of_a_rack_has_its_module_only(fakenvml: Path) -> None:
    settings = {"DRIVER": "580.159.04", "DEVICES": 1}
    gpu = ElementTree.fromstring(gpudash("-q", "-x", library=fakenvml, **settings).text).find("gpu")
    platform = {each.tag: each.text for each in gpu.find("platformInfo") or ()}
    assert platform.pop("module_id") == "1"
    assert set(platform.values()) == {"N/A"}


TELLING_APART = [
    (
        "525.147.05",
        "power_readings power_management power_limit enforced_power_limit sram_uncorrectable "
        "clocks_throttle_reasons clocks_throttle_reason_gpu_idle",
        "addressing_mode gpu_fru_part_number gpu_reset_status sparse_operation_mode "
        "cc_protected_memory_usage jpeg_util gpu_power_readings module_power_readings "
        "clocks_event_reasons sram_uncorrectable_parity aggregate_uncorrectable_sram_sources "
        "gpu_temp_max_tlimit_threshold",
    ),
    (
        "550.163.01",
        "c2c_mode vgpu_heterogeneous_mode pci_base_class gpu_memory_power_readings cliqueId "
        "clusterUuid health",
        "capabilities platformInfo clocks_throttle_reasons",
    ),
    (
        "570.124.04",
        "average_power_draw instant_power_draw platformInfo gpu_recovery_action egm "
        "dram_encryption_mode power_smoothing power_profiles route_unhealthy voltage",
        "power_draw gpu_module_id display_attached pdi edpp_multiplier",
    ),
    ("595.58.03", "edpp_multiplier pdi display_attached", "voltage gpu_reset_status"),
]
"""Drivers, elements that such a one has, and those that it has not."""


def test_the_elements_that_tell_drivers_apart(fakenvml: Path) -> None:
    runs = [("-q -x", {"DRIVER": driver}) for driver, _, _ in TELLING_APART]
    documents = each_of(runs, fakenvml, DEVICES=1)
    for (_, only, without), (_, text, _) in zip(TELLING_APART, documents, strict=True):
        found = {line.strip() for line in elements(text)}
        assert set(only.split()) <= found
        assert found.isdisjoint(without.split())


def test_a_document_declares_every_element_that_it_has(fakenvml: Path) -> None:
    run = gpudash("-q", "-x", "--dtd", library=fakenvml, MIG=1, **SETTINGS)
    declared = dict(re.findall(r"<!ELEMENT (\S+) \((.*)\)\*?>", run.text))
    for element in ElementTree.fromstring(run.text).iter():
        held = declared[element.tag].split(" | ")
        assert held[0] == "#PCDATA"
        assert {each.tag for each in element} <= set(held[1:])


def test_all_sections_are_in_the_document(fakenvml: Path) -> None:
    run = gpudash("-q", "-x", "-d", "ECC", library=fakenvml)
    assert (run.status, run.stderr.count("\n")) == (2, 1)
    assert "-d does not go with -x" in run.stderr


def test_a_lost_gpu_is_in_the_document_beside_the_others(fakenvml: Path) -> None:
    run = gpudash("-q", "-x", library=fakenvml, **{**SETTINGS, "DEVICES": 2}, LOST=1)
    assert run.status == 15
    found = ElementTree.fromstring(run.text).findall("gpu")
    values = [gpu.findtext("fb_memory_usage/total") for gpu in found]
    assert values == ["81920 MiB", "GPU is lost"]


def test_documents_again_and_again(fakenvml: Path) -> None:
    process = subprocess.Popen(
        [*GPUDASH, "-q", "-x", "-lms", "100"],
        env=environment(fakenvml, **SETTINGS),
        stdout=subprocess.PIPE,
        text=True,
    )
    documents = [""]
    while len(documents) < 3:
        line = process.stdout.readline()
        assert line
        documents[-1] += line
        if line.startswith("</nvidia_smi_log>"):
            documents.append("")
    process.stdout.close()
    assert process.wait(LIMIT_SECONDS) == 141
    brands = [ElementTree.fromstring(each).findtext("gpu/product_brand") for each in documents[:2]]
    assert brands == ["NVIDIA", "NVIDIA"]


HOSTILE = "a<b>&\"'c]]>\ufffe\x01"


def test_a_process_adds_no_element() -> None:
    snapshot = make_snapshot(processes=(make_process(command_line=(HOSTILE,)),))
    keys = {device.key for device in snapshot.devices}
    lines = smi_xml.document(wire.decode(wire.encode(snapshot)), keys)
    names = [each.text for each in ElementTree.fromstring("\n".join(lines)).iter("process_name")]
    assert len(names) == 1
    assert names[0].startswith("a<b>&\"'c]]>")
    assert names[0].isprintable()


def test_a_process_without_a_name_is_not_found() -> None:
    process = make_process(name=None, command_line=None)
    lines = text(make_snapshot(processes=(process,)), "PIDS")
    assert "            Name                          : [Not Found]" in lines


def test_samples_are_written_as_the_driver_took_them() -> None:
    buffers = (
        SampleBuffer(name="gpu", seconds=14.0, count=71, max=99, min=3, average=43.8),
        SampleBuffer(name="power", seconds=2.36, count=119, max=82_380, min=81_080, average=81_571),
    )
    lines = text(
        make_snapshot(devices=(DetailedDevice(index=0, sample_buffers=buffers),)),
        "UTILIZATION,POWER",
    )
    shown = [line.partition(": ")[2] for line in lines]
    start = lines.index("    GPU Utilization Samples") + 1
    assert shown[start : start + 5] == ["14.00 sec", "71", "99 %", "3 %", "43 %"]
    start = lines.index("    Power Samples") + 1
    assert shown[start : start + 5] == ["2.36 sec", "119", "82.38 W", "81.08 W", "81.57 W"]
    assert shown[lines.index("    ENC Utilization Samples") + 1] == "N/A"


def test_what_is_not_known_is_not_zero() -> None:
    device = make_device(memory_used_bytes=None, accounting_mode=None)
    lines = text(make_snapshot(devices=(device,)), "MEMORY,ACCOUNTING,SUPPORTED_CLOCKS")
    assert "        Used                              : N/A" in lines
    assert "    Accounted Processes                   : N/A" in lines
    assert "    Supported Clocks                      : N/A" in lines


def test_what_is_free_of_the_aperture_is_the_difference_of_what_is_shown() -> None:
    """An H200 under driver 580: 1.6 of 262,144 MiB in use."""
    device = make_device(bar1_total_bytes=274_877_906_944, bar1_used_bytes=1_703_936)
    lines = text(make_snapshot(devices=(device,)), "MEMORY")
    start = lines.index("    BAR1 Memory Usage") + 1
    assert [line.partition(": ")[2] for line in lines[start : start + 3]] == [
        "262144 MiB",
        "1 MiB",
        "262143 MiB",
    ]


def test_the_processes_of_a_lost_gpu_are_not_known() -> None:
    gpus = make_device(), make_device(index=1, uuid=None, state="lost")
    lines = text(make_snapshot(devices=gpus, processes=()), "PIDS")
    shown = [line.split(": ")[1] for line in lines if "Processes" in line]
    assert shown == ["None", "GPU is lost"]


def test_a_process_cannot_add_a_line() -> None:
    told = make_snapshot(devices=(make_device(name="evil\nGPU\x1b[2J"),))
    lines = text(wire.decode(wire.encode(told)), None)
    assert all(line.isprintable() for line in lines)


def text(snapshot: Snapshot, wanted: str | None) -> list[str]:
    keys = {device.key for device in snapshot.devices}
    return list(details(snapshot, keys, sections(wanted)))


def test_sections_read_what_they_print() -> None:
    assert reads(("COMPUTE",)) == {"compute_mode", "failed_fields"}
    assert "supported_clocks" not in reads(())
    assert "sample_buffers" in reads(("POWER",))
    assert sections("ecc,, power") == ("ECC", "POWER")


def test_what_only_details_print_is_read_by_nothing_else(fakenvml: Path) -> None:
    def calls(*words: str) -> set[str]:
        run = gpudash(*words, library=fakenvml, DEVICES=1, TRACE=1)
        assert run.status == 0
        return set(re.findall(r"^fakenvml nvmlDeviceGet(\w+)\(0\)$", run.stderr, re.MULTILINE))

    known = calls("--query-gpu=index", "--format=csv,noheader")
    assert calls("-q", "-d", "FBC_STATS") - known == {"FBCStats"}
    alone = {"FBCStats", "Brand", "Samples", "BridgeChipInfo", "Clock", "VirtualizationMode"}
    assert calls("--once", "--json").isdisjoint(alone)
    assert alone <= calls("-q") | calls("-q", "-d", "CLOCK")


def test_what_is_read_on_request_alone_is_read_for_the_details() -> None:
    asked = reads(()) | reads(sections(SECTIONS)) | smi_xml.reads()
    # Of `nvlink`, of `mig`, and of a query.
    assert ON_REQUEST - asked == {"nvlinks", "mig_layout", "inforom_valid"}


def test_a_wrong_section_is_reported_in_a_line() -> None:
    with pytest.raises(UsageError, match="did you mean ECC"):
        smi_details.sections("EC")
