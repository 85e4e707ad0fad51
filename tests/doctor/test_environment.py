import os
from pathlib import Path

import pytest

from gpudash.doctor import environment
from tests.doctor.machines import by_topic, machine, write
from tests.factories import gpu_uuid, make_device

HOST = {"proc/self/ns/pid": "pid:[4026531836]"}
MOUNT = "proc /proc proc rw,nosuid,nodev,noexec,relatime{} 0 0\n"


def test_a_plain_host(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/mounts", MOUNT.format(""))
    write(tmp_path, "proc/self/cgroup", "0::/user.slice/user-1000.slice/session-3.scope\n")
    found = environment.checks(machine(tmp_path, links=HOST), uid=1000)
    assert {check.verdict for check in found} == {"PASS"}


def test_a_container_is_no_fault(tmp_path: Path) -> None:
    write(tmp_path, "run/.containerenv")
    check = by_topic(environment.checks(machine(tmp_path), uid=0))["container"]
    assert check.verdict == "PASS"
    assert "podman" in check.finding


def test_a_container_that_was_given_no_gpu(tmp_path: Path) -> None:
    write(tmp_path, ".dockerenv")
    given = machine(tmp_path, NVIDIA_VISIBLE_DEVICES="void")
    check = by_topic(environment.checks(given, uid=0))["container"]
    assert check.verdict == "WARN"
    assert "--gpus all" in (check.advice or "")


def test_a_pid_namespace_of_its_own(tmp_path: Path) -> None:
    inside = machine(tmp_path, links={"proc/self/ns/pid": "pid:[4026532444]"})
    check = by_topic(environment.checks(inside, uid=0))["PID namespace"]
    assert check.verdict == "WARN"
    assert "--pid=host" in (check.advice or "")


@pytest.mark.parametrize(
    ("options", "uid", "verdict"),
    [
        (",hidepid=invisible", 1000, "WARN"),
        (",hidepid=2", 1000, "WARN"),
        (",hidepid=2", 0, "PASS"),
        (",hidepid=0", 1000, "PASS"),
    ],
)
def test_hidden_processes(tmp_path: Path, options: str, uid: int, verdict: str) -> None:
    write(tmp_path, "proc/self/mounts", MOUNT.format(options))
    check = by_topic(environment.checks(machine(tmp_path), uid=uid))["/proc"]
    assert check.verdict == verdict


def test_no_proc_at_all(tmp_path: Path) -> None:
    check = by_topic(environment.checks(machine(tmp_path), uid=1000))["/proc"]
    assert check.verdict == "WARN"
    assert "not mounted" in check.finding


def test_leases_need_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make what is locked")
    tmp_path.chmod(0o755)
    monkeypatch.setenv("GPUDASH_LOCK_DIR", str(tmp_path))
    shared = machine(tmp_path, GPUDASH_LOCK_DIR=str(tmp_path))
    devices = make_device(), make_device(index=1)
    check = environment.lease_check(shared, devices)
    assert check.verdict == "WARN"
    assert check.finding == f"GPUs cannot be leased: {tmp_path / gpu_uuid(0)} does not exist"
    (tmp_path / gpu_uuid(1)).touch()
    check = environment.lease_check(shared, devices)
    assert (check.verdict, check.finding) == ("PASS", "1 lock file in GPUDASH_LOCK_DIR")


def test_leases_by_sysfs_need_a_folder_of_the_host_in_containers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = sorted(Path("/sys/bus/pci/devices").glob("*"))
    if not found:
        pytest.skip("this machine shows no PCI device, whose directory would be locked")
    monkeypatch.delenv("GPUDASH_LOCK_DIR", raising=False)
    devices = (make_device(pci_bus_id=found[0].name),)
    assert environment.lease_check(machine(tmp_path), devices).verdict == "PASS"
    missing = (make_device(pci_bus_id="0000:fe:1f.7"),)
    assert environment.lease_check(machine(tmp_path), missing).verdict == "WARN"
    write(tmp_path, ".dockerenv")
    check = environment.lease_check(machine(tmp_path), devices)
    assert check.verdict == "WARN"
    assert "GPUDASH_LOCK_DIR" in (check.advice or "")


GOOD = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}


def test_a_good_terminal() -> None:
    found = environment.terminal_checks(
        {**GOOD, "TMUX": "x"}, (120, 40), colors="16 million", utf8=True
    )
    assert {check.verdict for check in found} == {"PASS"}
    assert found[0].finding == "xterm-256color, 120x40, in tmux"


def test_none_is_no_fault() -> None:
    (check,) = environment.terminal_checks({}, None, colors="16", utf8=False)
    assert check.verdict == "PASS"


@pytest.mark.parametrize("name", ["", "dumb"])
def test_one_that_cannot_show_a_screen(name: str) -> None:
    found = by_topic(environment.terminal_checks({"TERM": name}, (80, 24), colors="16", utf8=True))
    assert found["terminal"].verdict == "FAIL"


def test_what_is_small_or_poor_is_reported() -> None:
    found = by_topic(
        environment.terminal_checks({"TERM": "xterm"}, (60, 20), colors="16", utf8=False)
    )
    assert {check.verdict for check in found.values()} == {"WARN"}
    assert all(check.advice for check in found.values())


def test_a_console_draws_ascii_by_choice() -> None:
    found = by_topic(
        environment.terminal_checks(
            {"TERM": "linux", "NO_COLOR": ""}, (80, 24), colors="16", utf8=True
        )
    )
    assert {check.verdict for check in found.values()} == {"PASS"}


def test_a_plain_terminal_is_asked_for_nothing() -> None:
    found = by_topic(
        environment.terminal_checks({"TERM": "vt220"}, (80, 24), colors="16", utf8=False)
    )
    assert {check.verdict for check in found.values()} == {"PASS"}
