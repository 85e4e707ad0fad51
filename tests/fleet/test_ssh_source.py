"""Many hosts over a real ssh to a real sshd: what is known of each, and what it costs others."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import datetime, timezone
from math import inf
from pathlib import Path

import psutil
import pytest

from gpudash.fleet.names import expand
from gpudash.fleet.source import Reading, boot_clock
from gpudash.fleet.ssh_host import SshLimits
from gpudash.fleet.ssh_source import Pacing, SshSource
from gpudash.model import wire
from gpudash.model.fleet import FleetHost, FleetRequest
from tests.factories import make_device, make_process, make_snapshot
from tests.fleet.rig.reading import read_until
from tests.fleet.rig.sshd import SshRig, needs_sshd, refusing_port, running_sshd, silent_port
from tests.waiting import LIMIT_SECONDS, all_end, children_of, name_of

pytestmark = needs_sshd

QUICK = SshLimits(stale=0.5, hung=1.5, retry=0.2, max_retry=1.0)
PATIENT = SshLimits(stale=60.0, hung=600.0, retry=0.2, max_retry=1.0)


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshRig]:
    with running_sshd(tmp_path_factory.mktemp("sshd")) as rig:
        line = wire.encode_compact(make_snapshot(processes=(make_process(),)))
        (rig.home / "document").write_bytes(line + b"\n")
        # What is printed must have gone when the reader has.
        rig.program("gpudash", f"while cat {rig.home}/document; do sleep 0.1; done\n")
        yield rig


def open_source(rig: SshRig, *names: str, limits: SshLimits = PATIENT, **more: object) -> SshSource:
    options = {"config": str(rig.config), "interval": 0.1, "limits": limits, **more}
    return SshSource(dict.fromkeys(names), **options)  # type: ignore[arg-type]


def of(reading: Reading, name: str) -> FleetHost:
    (found,) = (host for host in reading.hosts if host.name == name)
    return found


def are(state: str, *names: str) -> Callable[[Reading], bool]:
    return lambda reading: all(of(reading, name).state == state for name in names)


def test_bad_hosts_are_named_by_what_is_wrong_and_leave_the_others_alone(sshd: SshRig) -> None:
    with silent_port() as silent, refusing_port() as refusing:
        bad = {
            sshd.host("hang", None, f"Port {silent}"): ("down", "banner exchange"),
            sshd.host("refused", None, f"Port {refusing}"): ("down", "refused"),
            sshd.host("unknown", None, "HostName no-such-host.invalid"): ("down", "resolve"),
            sshd.host("badkey", None, "HostKeyAlias rig-changed"): ("host-key", "by hand"),
            sshd.host("newkey", None, "HostKeyAlias rig-new"): ("host-key", "by hand"),
            sshd.host("noauth", None, "PubkeyAuthentication no"): ("auth", "denied"),
            sshd.host("garbage", "yes 'not json {' | head -100"): ("garbled", "not json {"),
            sshd.host(
                "denied", "echo 'Access denied by pam_slurm_adopt: no active jobs' >&2; exit 255"
            ): ("no-access", "pam_slurm_adopt"),
            sshd.host("bare", "exit 127"): ("no-gpudash", "nvidia-smi"),
            sshd.host("nodriver", "echo 'gpudash: the driver is not loaded' >&2; exit 9"): (
                "no-gpus",
                "the driver is not loaded",
            ),
        }
        good = [sshd.host(f"good{index}") for index in range(4)]
        with closing(open_source(sshd, *bad, *good)) as source:
            first = read_until(source, are("ok", *good))
            assert all(of(first, name).devices[0].users == ("alice",) for name in good)
            last = read_until(
                source,
                lambda reading: all(
                    of(reading, name).state == expected[0] for name, expected in bad.items()
                ),
            )
            for name, expected in bad.items():
                assert expected[1] in (of(last, name).message or ""), name
            assert last.report.answering_hosts == 4
            assert last.report.expected_hosts == len(bad) + 4


def test_refused_logins_are_not_repeated_unless_asked_for(sshd: SshRig) -> None:
    sshd.host("locked", "echo x >>$HOME/tries; echo 'Permission denied (publickey).' >&2; exit 255")
    tries = sshd.home / "tries"
    with closing(open_source(sshd, "locked")) as source:
        read_until(source, are("auth", "locked"))
        assert source.due_in() == inf
        assert tries.read_text() == "x\n"
        source.ask(FleetRequest(retries=1))
        read_until(source, lambda _: tries.read_text() == "x\nx\n")


def test_a_killed_remote_is_lost_as_last_known_and_comes_back(sshd: SshRig) -> None:
    sshd.host("killed")
    with closing(open_source(sshd, "killed", limits=SshLimits(retry=1.0))) as source:
        read_until(source, are("ok", "killed"))
        shell = psutil.Process(sshd.pid("killed"))
        for process in (*shell.children(recursive=True), shell):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        lost = of(read_until(source, are("lost-contact", "killed")), "killed")
        assert lost.devices[0].memory_total_bytes == make_device().memory_total_bytes
        assert lost.age_seconds is not None
        again = of(read_until(source, are("ok", "killed")), "killed")
        assert again.age_seconds is not None


def test_a_silent_host_is_stale_then_lost_then_asked_again(sshd: SshRig) -> None:
    sshd.host("stalled", f"echo hello; cat {sshd.home}/document; exec sleep 600")
    with closing(open_source(sshd, "stalled", limits=QUICK)) as source:
        read_until(source, are("ok", "stalled"))
        stale = of(read_until(source, are("stale", "stalled")), "stalled")
        assert stale.age_seconds is not None
        assert stale.age_seconds >= QUICK.stale
        lost = of(read_until(source, are("lost-contact", "stalled")), "stalled")
        assert "no answer for" in (lost.message or "")
        read_until(source, are("ok", "stalled"))


def test_hosts_that_flood_cost_bounded_memory_and_delay_no_other(sshd: SshRig) -> None:
    flooding = {
        sshd.host("endless-line", "exec tr '\\0' x </dev/zero"): "MiB",
        sshd.host("garbage-for-ever", "exec yes garbage"): "garbage",
        sshd.host("bad-documents", "exec yes '{\"schema\":7,'"): "unreadable document",
    }
    sshd.host("endless-errors", f"cat {sshd.home}/document; exec yes error >&2")
    sshd.host("endless-documents", f"while cat {sshd.home}/document; do :; done")
    sshd.host("quiet")
    before = psutil.Process().memory_info().rss
    names = (*flooding, "endless-errors", "endless-documents", "quiet")
    with closing(open_source(sshd, *names, limits=SshLimits(retry=60.0))) as source:
        last = read_until(
            source,
            lambda reading: (
                are("garbled", *flooding)(reading)
                and are("ok", "quiet", "endless-documents")(reading)
                and bool(of(reading, "endless-errors").devices)
            ),
        )
        for name, words in flooding.items():
            assert words in (of(last, name).message or ""), name
        assert psutil.Process().memory_info().rss - before < 200 << 20


def test_a_host_that_lies_about_its_name_and_the_date_is_known_by_ours(sshd: SshRig) -> None:
    snapshot = make_snapshot()
    future = datetime(9000, 1, 1, tzinfo=timezone.utc)
    lie = wire.encode(type(snapshot)(host=snapshot.host, devices=snapshot.devices, taken_at=future))
    (sshd.home / "lie").write_bytes(lie + b"\n")
    sshd.host("liar", f"while cat {sshd.home}/lie; do sleep 0.1; done")
    with closing(open_source(sshd, "liar")) as source:
        found = of(read_until(source, are("ok", "liar")), "liar")
        assert found.age_seconds is not None
        assert 0 <= found.age_seconds < LIMIT_SECONDS


def test_a_host_without_gpudash_is_read_by_nvidia_smi(sshd: SshRig) -> None:
    folder = sshd.home / "smi"
    folder.mkdir()
    smi = folder / "nvidia-smi"
    smi.write_text(
        "#!/bin/sh\n"
        'case $* in *compute-apps*) echo "GPU-1, $PPID, 512";;\n'
        "*) echo 'index, uuid, name, utilization.gpu [%], memory.total [MiB], memory.used [MiB]'\n"
        "echo '0, GPU-1, NVIDIA A100, 33, 81920, [N/A]';; esac\n"
    )
    smi.chmod(0o755)
    sshd.host("bare-smi", f'PATH={folder}:/usr/bin:/bin; exec sh -c "$SSH_ORIGINAL_COMMAND"')
    with closing(open_source(sshd, "bare-smi")) as source:
        found = of(read_until(source, are("ok", "bare-smi")), "bare-smi")
    (device,) = found.devices
    assert (device.status, device.gpu_utilization_percent) == ("busy", 33)
    assert device.memory_total_bytes == 80 << 30
    assert device.memory_used_bytes is None
    assert device.users


def test_more_hosts_than_can_be_streamed_are_swept(sshd: SshRig) -> None:
    rounds = "echo x >>$HOME/rounds-{0}; exec gpudash"
    names = [sshd.host(name, rounds.format(name)) for name in ("swept0", "swept1", "swept2")]
    pacing = Pacing(streams=2, swept=2, sweep_seconds=0.5)
    with closing(open_source(sshd, *names, pacing=pacing)) as source:
        read_until(source, are("ok", *names))

        def both_rounds(_reading: Reading) -> bool:
            assert len(list(source.descriptors())) <= 2
            logs = (sshd.home / f"rounds-{name}" for name in names)
            return all(log.read_text().count("x") >= 2 for log in logs)

        read_until(source, both_rounds)


def test_a_swept_host_that_hangs_when_it_is_asked_again_is_soon_lost(sshd: SshRig) -> None:
    once = "mkdir $HOME/asked-{0} 2>/dev/null || exec sleep 600; exec gpudash"
    names = [sshd.host(name, once.format(name)) for name in ("hangs0", "hangs1", "hangs2")]
    ahead = 0.0
    pacing = Pacing(streams=2)
    with closing(
        open_source(
            sshd, *names, limits=SshLimits(), pacing=pacing, clock=lambda: boot_clock() + ahead
        )
    ) as source:
        read_until(source, are("ok", *names))
        # Nobody is left who has a second document to send, which nobody listens for meanwhile.
        read_until(source, lambda _: not descriptors(source) and source.due_in() > 2)
        ahead += pacing.sweep_seconds
        read_until(source, lambda _: descriptors(source) == len(names))
        assert are("ok", *names)(source.read())
        ahead += SshLimits().hung
        read_until(source, are("lost-contact", *names))


@pytest.fixture
def held_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An ssh that never answers: a line for each that was started."""
    log = tmp_path / "started"
    log.touch()
    ssh = tmp_path / "ssh"
    ssh.write_text(
        f'#!/bin/sh\ncase "$*" in *-G*) echo "proxyjump $JUMP";; '
        f"*) echo x >>{log}; exec sleep 600;; esac\n"
    )
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return log


def started(log: Path) -> int:
    return log.read_text().count("x")


def descriptors(source: SshSource) -> int:
    return len(list(source.descriptors()))


@pytest.mark.parametrize(("jump", "count"), [("none", 8), ("bastion", 4)])
def test_handshakes_at_once_are_few_and_fewer_through_a_jump_host(
    held_ssh: Path, monkeypatch: pytest.MonkeyPatch, jump: str, count: int
) -> None:
    monkeypatch.setenv("JUMP", jump)
    pacing = Pacing(handshake_seconds=3600.0)
    with closing(SshSource(expand(["gpu[01-20]"]), limits=PATIENT, pacing=pacing)) as source:
        read_until(source, lambda _: (started(held_ssh), descriptors(source)) == (count, count))
        for _ in range(20):
            source.advance()
        read_until(source, lambda _: descriptors(source) == count)
        assert started(held_ssh) == count


def test_a_silent_handshake_does_not_hold_others_up_for_long(
    held_ssh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUMP", "none")
    pacing = Pacing(handshake_seconds=0.05)
    with closing(SshSource(expand(["gpu[01-20]"]), limits=PATIENT, pacing=pacing)) as source:
        read_until(source, lambda _: (started(held_ssh), descriptors(source)) == (20, 20))


def test_closing_leaves_no_ssh_behind(sshd: SshRig) -> None:
    names = [sshd.host(f"closed{index}") for index in range(4)]
    source = open_source(sshd, *names)
    read_until(source, are("ok", *names))
    children = [each for each in children_of(os.getpid()) if name_of(each.pid) == "ssh"]
    assert len(children) >= 4
    source.close(10.0)
    assert all_end(children)


_OWNER = """
import sys
from tests.fleet.rig.reading import read_until
from gpudash.fleet.ssh_source import SshSource
source = SshSource(dict.fromkeys(sys.argv[2:]), config=sys.argv[1])
read_until(source, lambda reading: {each.state for each in reading.hosts} == {"ok"})
print("ready", flush=True)
read_until(source, lambda _: False)
"""


def test_ssh_dies_with_its_owner(sshd: SshRig) -> None:
    names = [sshd.host(f"orphan{index}") for index in range(2)]
    command = [sys.executable, "-c", _OWNER, str(sshd.config), *names]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as owner:
        assert owner.stdout.readline() == b"ready\n"
        children = [each for each in children_of(owner.pid) if name_of(each.pid) == "ssh"]
        owner.kill()
    assert len(children) == 2
    assert all_end(children)
