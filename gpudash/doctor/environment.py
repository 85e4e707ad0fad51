"""gpudash's environment: container, namespaces, rights, terminal, packages and settings."""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from importlib import metadata

from gpudash import __version__
from gpudash.collect.leases import lease_fault, no_leases
from gpudash.doctor.checks import Check, Machine, failed, passed, warned
from gpudash.feed.attached import Service, ServiceError
from gpudash.feed.collector import RELEASED, service_socket
from gpudash.feed.past import ServiceSegments
from gpudash.feed.recording.reader import ZSTD_MAGIC, Recording
from gpudash.model.device import Device
from gpudash.model.errors import GpudashError
from gpudash.model.text import clean
from gpudash.model.units import counted, duration, short_size
from gpudash.system.processes import FIRST_PID_NAMESPACE
from gpudash.system.terminal import is_plain

_HIDEPID = re.compile(r"\bhidepid=(?!0|off)(\w+)")
_SHARE = "share a folder of the host with a file for each UUID: GPUDASH_LOCK_DIR"
_SERVICE_SECONDS = 1.0
_UNWRITTEN_SECONDS = 120.0
"""For a history: twice the interval of samples that are kept for long."""
_MIN_COLUMNS, _MIN_LINES = 80, 24
_PACKAGES = ("nvidia-ml-py", "msgspec", "psutil", "textual", "plotext", "tomlkit")


def checks(machine: Machine, uid: int | None = None) -> list[Check]:
    """Return the checks of container, PID namespace, /proc and rights."""
    user = os.geteuid() if uid is None else uid
    return [
        _container(machine),
        _namespace(machine),
        _proc(machine, user),
        _rights(user),
    ]


def _container(machine: Machine) -> Check:
    kind = machine.container
    if kind is None:
        return passed("container", "none")
    visible = machine.environ.get("NVIDIA_VISIBLE_DEVICES")
    if visible in ("", "none", "void"):
        advice = "start it with --gpus all, or NVIDIA_VISIBLE_DEVICES=all"
        return warned("container", f"{kind}, with NVIDIA_VISIBLE_DEVICES={visible!r}", advice)
    return passed("container", f"{kind}; only the GPUs assigned to it are visible")


def _namespace(machine: Machine) -> Check:
    topic = "PID namespace"
    found = machine.target("/proc/self/ns/pid")
    if found is None:
        return warned(topic, "unknown: processes can be neither named nor signalled safely")
    if found == FIRST_PID_NAMESPACE:
        return passed(topic, "the host's: the driver's process ids are valid here")
    finding = "a container's own: the driver reports process ids of the host"
    advice = "processes stay unnamed and cannot be killed; share it with --pid=host to see them"
    return warned(topic, finding, advice)


def _proc(machine: Machine, user: int) -> Check:
    mounts = machine.read("/proc/self/mounts") or ""
    options = [line.split()[3] for line in mounts.splitlines() if _is_proc(line)]
    hidden = _HIDEPID.search(options[-1]) if options else None
    if hidden and user != 0:
        advice = "the group of its gid= option sees them, and so does root"
        finding = f"mounted with {hidden[0]}: other users' processes are hidden"
        return warned("/proc", finding, advice)
    if not machine.names("/proc/self"):
        return warned("/proc", "not mounted: GPUs are shown, processes are not")
    return passed("/proc", "shows every user's processes")


def _is_proc(line: str) -> bool:
    words = line.split()
    return len(words) > 3 and words[1] == "/proc" and words[2] == "proc"


def _rights(user: int) -> Check:
    if user == 0:
        return passed("rights", "root: the processes of all users can be inspected and signalled")
    return passed("rights", "only your own processes can be inspected and signalled")


def service_checks() -> list[Check]:
    """Return the check of the service that all gpudash of this host share, if any."""
    topic, path = "service", service_socket()
    if not path:
        return []
    try:
        with closing(Service(path)) as service:
            since = duration(max(time.time() - service.started_at, 0.0))
            finding = f"gpudash {clean(service.version)} of {clean(service.user)}, for {since}"
            service.ask(max(service.floor, _SERVICE_SECONDS))
            is_released = service.first_line() == [RELEASED]
    except ServiceError as error:
        advice = "each gpudash reads the driver itself meanwhile: systemctl status gpudash"
        return [warned(topic, f"not used: {clean(str(error))}", advice)]
    if is_released:
        remedy = f"after a reset: sudo kill -USR1 {service.pid}"
        return [warned(topic, f"{finding}, detached from the driver", remedy)]
    holds = f"it holds the GPUs: before and after a reset, sudo kill -USR1 {service.pid}"
    return [passed(topic, f"{finding}, last sample {service.age:.1f} s ago; {holds}")]


def history_checks() -> list[Check]:
    """Return the check of the service's history, if it keeps one.

    All segments are opened, but only the parts are read that a search for the last sample needs.
    """
    topic, path = "history", service_socket()
    try:
        if not path:
            return []
        with closing(Service(path)) as service:
            if not service.has_past:
                return []
        source, size, damaged = ServiceSegments(), 0, list[str]()
        names = source.names()
        for name in names:
            count, is_whole = _segment(source, name)
            size += count
            damaged += [] if is_whole else [name]
        recording = Recording(source)
    except ServiceError as error:
        return [warned(topic, clean(str(error)))]
    except (GpudashError, OSError) as error:
        return [failed(topic, f"cannot be read: {clean(str(error))}")]
    finding = f"{short_size(size)} in {counted(len(names), 'segment')}, {recording.span}"
    age = time.time() - recording.last.taken_at.timestamp()
    if age > _UNWRITTEN_SECONDS:
        advice = "a full disk? the service says why: journalctl -u gpudash"
        return [warned(topic, f"{finding}: not written for {duration(age)}", advice)]
    if damaged or recording.note:
        lost = f"{counted(len(damaged), 'segment')} cannot be read" if damaged else recording.note
        return [warned(topic, f"{finding}; {lost}", "what is in them is left out")]
    return [passed(topic, finding)]


def _segment(source: ServiceSegments, name: str) -> tuple[int, bool]:
    """Return the bytes of a segment, and whether its beginning is valid; raises like `open`."""
    try:
        descriptor = source.open(name)
    except FileNotFoundError:
        return 0, True
    try:
        start = os.pread(descriptor, len(ZSTD_MAGIC), 0)
        return os.fstat(descriptor).st_size, start in (b"", ZSTD_MAGIC)
    finally:
        os.close(descriptor)


def lease_check(machine: Machine, devices: Sequence[Device]) -> Check:
    """Check whether `gpudash run` can lease devices, by the files that it locks."""
    why, is_inside = no_leases(devices), machine.container is not None
    if why is not None:
        advice = "as root: an empty file for each UUID that gpudash -L lists, in GPUDASH_LOCK_DIR"
        if is_inside:
            advice = _SHARE
        return warned("leases", f"GPUs cannot be leased: {clean(why)}", advice)
    if machine.environ.get("GPUDASH_LOCK_DIR"):
        count = sum(lease_fault(device) is None for device in devices)
        return passed("leases", f"{counted(count, 'lock file')} in GPUDASH_LOCK_DIR")
    if is_inside:
        return warned("leases", "hold inside this container only: its sysfs is its own", _SHARE)
    return passed("leases", "by locks on the GPUs' directories in sysfs")


def terminal_checks(
    environ: Mapping[str, str], size: tuple[int, int] | None, *, colors: str, utf8: bool
) -> list[Check]:
    """Return the checks of a terminal of `size` columns and lines, None without one."""
    if size is None:
        return [passed("terminal", "none here; the screen needs one, gpudash --once does not")]
    return [_screen(environ, *size), _colors(environ, colors), _characters(environ, utf8)]


def _screen(environ: Mapping[str, str], columns: int, lines: int) -> Check:
    topic = "terminal"
    name = clean(environ.get("TERM", ""))
    if name in ("", "dumb"):
        advice = "export TERM=xterm-256color, or use gpudash --once"
        return failed(topic, f"TERM={name!r} cannot show a screen", advice)
    finding = f"{name}, {columns}x{lines}{_around(environ)}"
    if columns < _MIN_COLUMNS or lines < _MIN_LINES:
        advice = f"make it {_MIN_COLUMNS}x{_MIN_LINES} to see everything"
        return warned(topic, finding, advice)
    return passed(topic, finding)


def _around(environ: Mapping[str, str]) -> str:
    around = {"TMUX": "tmux", "STY": "screen", "SSH_CONNECTION": "ssh"}
    inside = [word for name, word in around.items() if environ.get(name)]
    return f", in {' over '.join(inside)}" if inside else ""


def _colors(environ: Mapping[str, str], colors: str) -> Check:
    if "NO_COLOR" in environ:
        return passed("colours", "none: NO_COLOR is set")
    if is_plain(environ):
        return passed("colours", f"none: {clean(environ['TERM'])} has none")
    if colors == "16":
        advice = "export TERM=xterm-256color, or COLORTERM=truecolor, if the terminal can"
        return warned("colours", "16: themes are reduced to them", advice)
    return passed("colours", colors)


def _characters(environ: Mapping[str, str], utf8: bool) -> Check:
    if environ.get("TERM") == "linux":
        return passed("characters", "ASCII: the console's font has no blocks and braille")
    if is_plain(environ):
        return passed("characters", f"ASCII: {clean(environ['TERM'])} has no others")
    if not utf8:
        advice = "export LC_ALL=C.UTF-8"
        return warned("characters", "ASCII: the locale is not UTF-8", advice)
    return passed("characters", "UTF-8")


def installation_checks(mistakes: Sequence[str]) -> list[Check]:
    """Return the checks of the packages, and of the settings with these mistakes."""
    return [_packages(), *_bytecode(), *_settings(mistakes)]


def _packages() -> Check:
    python = ".".join(map(str, sys.version_info[:3]))
    found = [f"{name} {version}" for name in _PACKAGES if (version := _version(name))]
    missing = [name for name in _PACKAGES if _version(name) is None]
    if missing:
        advice = "install it again: pip install --force-reinstall gpudash"
        return failed("gpudash", f"{__version__} is installed without {', '.join(missing)}", advice)
    return passed("gpudash", f"{__version__}, Python {python}, {', '.join(found)}")


def _bytecode() -> list[Check]:
    """Check for modules without bytecode: Python has just imported them but could not write it."""
    specs = [
        module.__spec__
        for name, module in sys.modules.items()
        if name.partition(".")[0] == "gpudash" and module.__spec__ is not None
    ]
    missing = [spec for spec in specs if spec.cached and not os.path.exists(spec.cached)]
    if not missing:
        return []
    # Including the packages beside it, which were installed in the same way.
    folder = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    command = shlex.join([sys.executable, "-m", "compileall", "-q", folder])
    finding = (
        f"missing for {len(missing)} of {counted(len(specs), 'module')}: each start compiles them "
        "again, and takes two to three times the CPU"
    )
    return [warned("bytecode", finding, f"as the owner of its folder: {clean(command)}")]


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _settings(mistakes: Sequence[str]) -> list[Check]:
    if not mistakes:
        return [passed("settings", "valid")]
    return [warned("settings", mistake) for mistake in mistakes]
