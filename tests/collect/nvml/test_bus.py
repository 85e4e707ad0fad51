import threading
import time
from pathlib import Path
from typing import Any

import pytest

from gpudash.collect.nvml.bus import UNKNOWN, Identity, IdlePolicy, PciBus
from gpudash.collect.nvml.worker import CallTimeouts, DriverWorker
from tests.collect.nvml.tampering import Machine


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


def test_a_module_that_was_loaded_again_is_another_load(tmp_path: Path) -> None:
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


ADDRESS = "0000:01:00.0"


class Laptop(Machine):
    """A simulated GPU with nothing to do, whose power the test tells."""

    def __init__(self, root: Path, worker: DriverWorker | None = None) -> None:
        super().__init__("single", worker)
        self._root = root
        self.status = "active"
        (self.address,) = self.host.power_states()
        self.write(f"devices/{self.address}/power/control", "auto")
        self.write("supplies/BAT0/type", "Battery")
        self.write("supplies/AC/type", "Mains")
        self.write("supplies/hidpp_battery_0/type", "Battery")
        self.write("supplies/hidpp_battery_0/scope", "Device")
        self.write("supplies/hidpp_battery_0/status", "Discharging")
        self.plug(False)
        self.use()
        self.idle(True)

    def use(self, *, on_mains: bool = False) -> None:
        """Let another collector read it."""
        folders = str(self._root / "supplies"), str(self._root / "devices")
        self.reader = self._reader(IdlePolicy(*folders, on_mains=on_mains))

    def write(self, name: str, text: str) -> None:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")

    def plug(self, plugged: bool) -> None:
        self.write("supplies/AC/online", "1" if plugged else "0")
        self.write("supplies/BAT0/status", "Charging" if plugged else "Discharging")

    def idle(self, idle: bool) -> None:
        real = self.host.library.nvmlDeviceGetUtilizationRates

        def rates(handle: Any) -> Any:
            rates = real(handle)
            rates.gpu = 0 if idle else 50
            return rates

        self.driver.replaced["nvmlDeviceGetUtilizationRates"] = rates
        for kind in ("Compute", "Graphics", "MPSCompute"):
            self.driver.replaced[f"nvmlDeviceGet{kind}RunningProcesses_v3"] = lambda _handle: []

    def power_states(self) -> dict[str, str]:
        return {self.address: self.status}

    def states(self, seconds: int) -> list[str]:
        """Return the state of the GPU in each of so many seconds."""
        return [self.read(1.0).devices[0].state for _ in range(seconds)]


@pytest.fixture
def laptop(tmp_path: Path) -> Laptop:
    return Laptop(tmp_path)


def test_an_idle_gpu_is_left_alone_and_falls_asleep(laptop: Laptop) -> None:
    assert laptop.states(28) == ["ok"] * 28
    states = laptop.states(6)
    assert states[-1] == "resting"
    assert laptop.driver.asked.count("nvmlShutdown") == 1
    laptop.driver.asked.clear()
    (device,) = laptop.read().devices
    assert "left alone so that it can fall asleep" in device.fault.message
    assert device.uuid is not None
    assert device.gpu_utilization_percent is None
    laptop.status = "suspended"
    assert laptop.states(100) == ["asleep"] * 100
    assert laptop.driver.asked == []


def test_a_gpu_that_somebody_woke_is_looked_at(laptop: Laptop) -> None:
    laptop.states(40)
    laptop.status = "suspended"
    laptop.states(5)
    laptop.status = "active"
    assert laptop.states(5) == ["ok"] * 5


def test_mains_power_ends_the_rest(laptop: Laptop) -> None:
    assert laptop.states(40)[-1] == "resting"
    laptop.plug(True)
    assert laptop.states(100) == ["ok"] * 100


def test_a_collector_that_runs_for_ever_rests_on_mains_too(laptop: Laptop) -> None:
    laptop.plug(True)
    laptop.use(on_mains=True)
    assert laptop.states(40)[-1] == "resting"
    laptop.status = "suspended"
    assert laptop.states(100) == ["asleep"] * 100
    assert laptop.driver.asked[-1] == "nvmlShutdown"


def test_only_a_machine_with_a_battery_of_its_own_rests(laptop: Laptop) -> None:
    laptop.write("supplies/BAT0/scope", "Device")
    laptop.use(on_mains=True)
    assert set(laptop.states(100)) == {"ok"}


def test_a_gpu_that_is_rarely_read_falls_asleep_too(laptop: Laptop) -> None:
    states = [laptop.read(60.0).devices[0].state for _ in range(3)]
    assert states[-1] == "resting"
    laptop.status = "suspended"
    assert laptop.read(60.0).devices[0].state == "asleep"


def test_a_gpu_that_somebody_else_keeps_awake_is_looked_at_again(laptop: Laptop) -> None:
    states = laptop.states(300)
    assert states.count("resting") < 40
    assert states[-200:] == ["ok"] * 200


@pytest.mark.parametrize("change", ["busy", "mains", "always on"])
def test_a_gpu_is_not_left_alone_for_nothing(laptop: Laptop, change: str) -> None:
    if change == "busy":
        laptop.idle(False)
    elif change == "mains":
        laptop.plug(True)
    else:
        laptop.write(f"devices/{laptop.address}/power/control", "on")
    assert set(laptop.states(100)) == {"ok"}


def test_falling_asleep_is_seen_without_a_call(laptop: Laptop) -> None:
    laptop.plug(True)
    (awake,) = [laptop.read() for _ in range(3)][-1].devices
    laptop.driver.asked.clear()
    laptop.status = "suspended"
    (asleep,) = laptop.read().devices
    assert (asleep.state, asleep.uuid) == ("asleep", awake.uuid)
    assert laptop.driver.asked == []
    laptop.status = "active"
    assert laptop.states(3) == ["ok"] * 3
    assert laptop.driver.asked.count("nvmlEventSetFree") == 1


def test_a_driver_that_does_not_let_go_is_reported_instead_of_rest(tmp_path: Path) -> None:
    worker = DriverWorker(
        CallTimeouts(turn_seconds=0.05, call_seconds=0.1, first_call_seconds=0.15)
    )
    laptop = Laptop(tmp_path, worker)
    gate = threading.Event()
    shut_down = laptop.host.library.nvmlShutdown

    def hang() -> None:
        gate.wait(30)
        shut_down()

    laptop.driver.replaced["nvmlShutdown"] = hang
    assert laptop.states(40)[-1] == "not-answering"
    (device,) = laptop.read().devices
    assert "nvmlShutdown" in device.fault.message
    gate.set()
    deadline = time.monotonic() + 10
    while laptop.states(1) != ["resting"]:
        assert time.monotonic() < deadline
    worker.close()


def test_a_machine_without_batteries_never_rests(tmp_path: Path) -> None:
    rest = IdlePolicy(str(tmp_path / "absent"), str(tmp_path / "absent"))
    assert not any(rest.begins({ADDRESS: "active"}, True, float(now)) for now in range(100))
