"""What the hardware reports, from the stand-in's C structures to the document."""

import os
import subprocess
from pathlib import Path

import pytest

from gpudash.model.wire import decode
from tests.e2e.forking import GPUDASH
from tests.e2e.run import gpudash, tell
from tests.e2e.stream import streaming
from tests.fakenvml.build import environment


def test_a_machine_in_trouble_is_reported_as_it_is(fakenvml: Path, tmp_path: Path) -> None:
    control = tmp_path / "control"
    told = {
        "DEVICES": 2,
        "DRIVER": "580.65.06",
        "TOPO": "nvswitch",
        "GPM": 1,
        "LOAD": "busy",
        "RISE": "0:74:5e8,1:271:2e8",
        "LINK_DOWN": "1:4",
        "FABRIC": "2",
    }
    tell(control, **told)
    with streaming(fakenvml, CONTROL=control) as stream:
        first = stream.next()
        stream.until(lambda snapshot: snapshot.devices[1].xid_events == ())
        tell(control, **told, XID="1:79")
        seen = stream.until(
            lambda snapshot: (
                snapshot.devices[1].xid_events
                # A busy host reads late.
                and abs((snapshot.devices[0].throttled_sw_power_cap_percent or 0) - 50) <= 20
                and snapshot.devices[1].throttled_hw_power_brake_percent
            )
        )
    assert first.devices[0].throttled_sw_power_cap_percent is None
    healthy, broken = seen.devices
    assert healthy.throttled_hw_power_brake_percent == 0
    assert healthy.xid_events == ()
    assert [event.code for event in broken.xid_events or ()] == [79]
    assert (broken.nvlink_count, broken.nvlink_inactive_links) == (11, (4,))
    assert broken.fabric_state == "in-progress"
    assert broken.recovery_action == "none"
    assert broken.utilization_source == "gpm"
    assert broken.sm_active_percent is not None


def test_instances_tell_their_own_activity(fakenvml: Path) -> None:
    with streaming(fakenvml, DEVICES=1, MIG=1, GPM=1, LOAD="busy") as stream:
        stream.next()
        seen = stream.until(lambda snapshot: snapshot.devices[-1].sm_active_percent is not None)
    instances = [device for device in seen.devices if device.is_mig]
    assert [device.sm_active_percent for device in instances] == [90.0, 45.0, 30.0]
    assert {device.utilization_source for device in instances} == {"gpm"}


def test_pcie_is_measured_by_the_call_when_asked_for(fakenvml: Path) -> None:
    once = ("--once", "--json")
    refused = "nvmlDeviceGetFieldValues:*:3"
    plain = gpudash(*once, library=fakenvml, DEVICES=1, FAIL=refused)
    asked = gpudash(*once, "--pcie-throughput", library=fakenvml, DEVICES=1, FAIL=refused)
    assert plain.snapshot.devices[0].pcie_rx_bytes_per_second is None
    assert asked.snapshot.devices[0].pcie_rx_bytes_per_second is not None


def test_a_single_look_does_not_pay_for_what_takes_two(fakenvml: Path, tmp_path: Path) -> None:
    counted = tmp_path / "count"
    gpudash("--once", "--json", library=fakenvml, DEVICES=1, GPM=1, COUNT=counted)
    asked = {line.split()[0] for line in counted.read_text().splitlines()}
    assert "nvmlDeviceGetUtilizationRates" in asked
    assert not {name for name in asked if name.startswith(("nvmlGpm", "nvmlEvent"))}


_OLD_PYNVML = """
import os, sys
from importlib.machinery import PathFinder
folder = os.path.dirname(__file__)
spec = PathFinder.find_spec("pynvml", [each for each in sys.path if each != folder])
exec(compile(open(spec.origin).read(), spec.origin, "exec"))
for name in [name for name in globals() if "GpuFabricInfo" in name]:
    del globals()[name]
"""


@pytest.mark.parametrize("fails", ["", "nvmlDeviceGetGpuFabricInfoV:*:13"])
def test_the_fabric_is_read_whatever_pynvml_calls_its_structure(
    fakenvml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    (tmp_path / "pynvml.py").write_text(_OLD_PYNVML)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    env = environment(fakenvml, DEVICES=1, FABRIC="3:0:1", FAIL=fails)
    run = subprocess.run([*GPUDASH, "--once", "--json"], env=env, capture_output=True)
    device = decode(run.stdout).devices[0]
    assert (device.fabric_state, device.fabric_status_code) == ("completed", 0)
    assert device.fabric_cluster_uuid == "abababab-abab-abab-abab-abababababab"
    assert device.fabric_clique_id == 1
    assert device.fabric_bandwidth_degraded is (None if fails else True)
