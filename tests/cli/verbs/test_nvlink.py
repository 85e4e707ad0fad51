"""`gpudash nvlink` against what nvidia-smi 535.309 printed on the stand-in library."""

from pathlib import Path

from tests.e2e.run import each_of, gpudash

CAPTURED = Path(__file__).parents[2] / "output" / "captured"


def test_as_nvidia_smi_prints_it(fakenvml: Path) -> None:
    options = "-s", "-e", "-c", "-p", "-R"
    lines = [(f"nvlink {option}", {"LINK_DOWN": "1:3"}) for option in options]
    found = each_of(lines, fakenvml, DEVICES=2)
    assert found == [(0, (CAPTURED / f"nvlink{o}.txt").read_text(), "") for o in options]


def test_what_the_links_carried(fakenvml: Path) -> None:
    settings = {"DEVICES": 2, "LINK_DOWN": "1:3", "TIME": 1_795_000_000, "LOAD": "busy"}
    run = gpudash("nvlink", "-gt", "d", library=fakenvml, **settings)
    assert run.text == (CAPTURED / "nvlink-gt.txt").read_text()
    raw = gpudash("nvlink", "-gt", "r", library=fakenvml, **settings)
    assert raw.text == run.text.replace("Data", "Raw")


def test_one_link_of_one_gpu(fakenvml: Path) -> None:
    run = gpudash("nvlink", "-i", "1", "-l", "3", library=fakenvml, DEVICES=2, LINK_DOWN="1:3")
    gpu, link = run.text.splitlines()
    assert gpu.startswith("GPU 1: ")
    assert link == "NVML: Unable to retrieve NVLink information for link 3 - inActive"


def test_a_gpu_without_links_has_no_line(fakenvml: Path) -> None:
    run = gpudash("nvlink", "-s", library=fakenvml, MODEL="geforce")
    assert (run.status, run.text) == (0, "")


def test_a_lost_gpu_has_its_status(fakenvml: Path) -> None:
    run = gpudash("nvlink", "-s", library=fakenvml, DEVICES=2, LOST="1")
    assert run.status == 15
    assert "GPU 1" not in run.text


def test_what_cannot_be_read_is_not_inactive(fakenvml: Path) -> None:
    broken = "nvmlDeviceGetNvLinkCapability:*:999"
    run = gpudash("nvlink", "-c", library=fakenvml, DEVICES=2, FAIL=broken)
    assert "Link 0, P2P is supported: N/A" in run.text


def test_several_tables_follow_each_other(fakenvml: Path) -> None:
    words = "-e -s -c", "-s", "-c", "-e"
    found = each_of([(f"nvlink {each}", {}) for each in words], fakenvml, DEVICES=1)
    whole, *parts = (text.splitlines()[1:] for _, text, _ in found)
    assert whole == [line for part in parts for line in part]


def test_gpus_that_are_not_there_are_left_out(fakenvml: Path) -> None:
    some = gpudash("nvlink", "-i", "1,7", library=fakenvml, DEVICES=2)
    assert (some.status, some.text.count("GPU ")) == (0, 1)
    none = gpudash("nvlink", "-i", "7", library=fakenvml, DEVICES=2)
    assert (none.status, none.text, none.stderr.count("\n")) == (6, "", 1)
