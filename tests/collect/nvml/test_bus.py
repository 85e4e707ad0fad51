from pathlib import Path

import pytest

from gpudash.collect.nvml.bus import UNKNOWN, Identity, PciBus, kernel_address


def make_gpu(root: Path, address: str, *, status: str | None, pci_class: str = "0x030200") -> None:
    device = root / address
    (device / "power").mkdir(parents=True)
    (device / "class").write_text(f"{pci_class}\n")
    if status is not None:
        (device / "power" / "runtime_status").write_text(f"{status}\n")


def test_power_states_come_in_pci_order(tmp_path: Path) -> None:
    make_gpu(tmp_path, "0000:41:00.0", status="suspended")
    make_gpu(tmp_path, "0000:01:00.0", status="active")
    states = PciBus(driver=str(tmp_path)).power_states()
    assert list(states.items()) == [("0000:01:00.0", "active"), ("0000:41:00.0", "suspended")]


def test_other_functions_of_the_card_are_no_gpus(tmp_path: Path) -> None:
    make_gpu(tmp_path, "0000:01:00.0", status="active")
    make_gpu(tmp_path, "0000:01:00.1", status="active", pci_class="0x040300")
    (tmp_path / "bind").write_text("")
    assert list(PciBus(driver=str(tmp_path)).power_states()) == ["0000:01:00.0"]


def test_a_kernel_without_runtime_power_management_says_unsupported(tmp_path: Path) -> None:
    make_gpu(tmp_path, "0000:01:00.0", status=None)
    assert PciBus(driver=str(tmp_path)).power_states() == {"0000:01:00.0": "unsupported"}


def test_a_machine_without_the_driver_has_no_gpus(tmp_path: Path) -> None:
    assert PciBus(driver=str(tmp_path / "absent")).power_states() == {}


def test_identity_is_what_the_kernel_module_cached(tmp_path: Path) -> None:
    gpu = tmp_path / "0000:01:00.0"
    gpu.mkdir()
    (gpu / "information").write_text(
        "Model: \t\t NVIDIA GeForce RTX 4090\nIRQ:   \t\t 142\nGPU UUID: \t GPU-8932f937-d72c\n"
    )
    assert PciBus(procfs=str(tmp_path)).identity("0000:01:00.0") == Identity(
        "NVIDIA GeForce RTX 4090", "GPU-8932f937-d72c"
    )


def test_identity_of_a_gpu_that_was_never_awake_has_no_uuid(tmp_path: Path) -> None:
    gpu = tmp_path / "0000:01:00.0"
    gpu.mkdir()
    (gpu / "information").write_text("Model: RTX\x1b[31m\nGPU UUID: GPU-????????-????\n")
    identity = PciBus(procfs=str(tmp_path)).identity("0000:01:00.0")
    assert identity == Identity("RTX\\x1b[31m", None)


def test_identity_of_an_unknown_address_is_empty(tmp_path: Path) -> None:
    assert PciBus(procfs=str(tmp_path)).identity("0000:99:00.0") == UNKNOWN


def test_a_module_that_was_loaded_anew_is_another_load(tmp_path: Path) -> None:
    module, before = tmp_path / "nvidia", tmp_path / "before"
    bus = PciBus(module=str(module))
    assert bus.driver_load() is None
    module.mkdir()
    first = bus.driver_load()
    assert first is not None
    assert bus.driver_load() == first
    module.rename(before)
    module.mkdir()
    assert bus.driver_load() != first


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ("00000000:1A:00.0", "0000:1a:00.0"),
        (b"0000:1A:00.0", "0000:1a:00.0"),
        ("00010000:E1:00.0", "10000:e1:00.0"),
        ("nowhere", None),
        (None, None),
    ],
)
def test_an_address_is_written_as_the_kernel_does(
    told: str | bytes | None, shown: str | None
) -> None:
    assert kernel_address(told) == shown
