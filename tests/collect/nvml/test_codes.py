"""Why NVML cannot be used, on machines made of files."""

from pathlib import Path

from gpudash.collect.nvml.codes import init_error

MODULE = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 01:44:30 UTC 2024\n"
    "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n"
)
MAPS = "7f0c-7f0d r-xp 00000000 08:01 42   {}\n"


def machine(root: Path, **files: str) -> str:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


def test_both_versions_that_differ_are_named(tmp_path: Path) -> None:
    library = tmp_path / "libnvidia-ml.so.560.35.03"
    library.touch()
    link = tmp_path / "libnvidia-ml.so.1"
    link.symlink_to(library)
    root = machine(
        tmp_path, proc__driver__nvidia__version=MODULE, proc__self__maps=MAPS.format(link)
    )
    assert init_error(18, root, {}).startswith(
        "driver 550.54.14 loaded, library 560.35.03 (NVML error 18); reboot, or reload the module"
    )


def test_a_module_may_show_its_version_in_sysfs_alone(tmp_path: Path) -> None:
    root = machine(tmp_path, sys__module__nvidia__version="550.54.14\n")
    assert "driver 550.54.14 loaded" in init_error(18, root, {})


def test_a_version_that_is_not_known_is_not_invented(tmp_path: Path) -> None:
    root = machine(tmp_path, proc__driver__nvidia__version=MODULE)
    assert "driver 550.54.14 loaded, the library is of another version" in init_error(18, root, {})
    assert "versions differ" in init_error(18, str(tmp_path / "nothing"), {})


def test_hostile_version_is_not_repeated(tmp_path: Path) -> None:
    root = machine(tmp_path, proc__driver__nvidia__version="\x1b]0;owned\x07 \u202e none")
    assert init_error(18, root, {}).isprintable()


def test_container_that_lost_its_gpus_is_reported_cause_and_mending(tmp_path: Path) -> None:
    line = init_error(999, machine(tmp_path, proc__self__cgroup="0::/kubepods.slice/pod1\n"), {})
    assert "this container lost its access" in line
    assert "systemctl daemon-reload" in line
    assert "start it again" in line


def test_the_same_number_elsewhere_points_to_the_kernel_log(tmp_path: Path) -> None:
    root = machine(tmp_path, proc__self__cgroup="0::/user.slice\n")
    assert "dmesg" in init_error(999, root, {})
    assert "container" not in init_error(999, root, {})
