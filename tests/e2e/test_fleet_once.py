"""--once of a Prometheus: a first picture that says what it has not, or all that is needed."""

import subprocess
from collections.abc import Iterator

import pytest

from gpudash.model.fleet import decode
from tests.e2e.forking import GPUDASH
from tests.fleet.rig.exporters import FLEET
from tests.fleet.rig.faults import faulty
from tests.fleet.rig.prometheus import Server, past
from tests.waiting import LIMIT_SECONDS, until


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with past(tmp_path_factory.mktemp("prometheus"), FLEET) as running:
        yield running


def once(url: str, *words: str) -> tuple[int, str]:
    command = [*GPUDASH, f"--prometheus={url}", "--once", "--no-config", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    return done.returncode, done.stdout


def test_once_prints_the_first_picture_and_what_it_has_not(server: Server) -> None:
    with faulty(server.url) as proxy:
        proxy.holds = lambda body: "timestamp" in body and "unless" in body
        status, out = once(proxy.url, "--json")
    assert status == 0
    printed = decode(out.encode())
    gpus = [gpu for host in printed.hosts for gpu in host.devices]
    assert any(gpu.memory_used_bytes for gpu in gpus)
    assert any(gpu.power_usage_mw for gpu in gpus)
    (source,) = printed.sources
    assert source.expected_hosts is None
    assert "not waited for" in " ".join(source.warnings)


def test_once_knows_all_of_a_few_hosts(server: Server) -> None:
    def is_whole() -> bool:
        (source,) = decode(once(server.url, "--json")[1].encode()).sources
        return source.expected_hosts is not None and not source.warnings

    # As soon as this machine has the time to.
    until(is_whole)


def test_nothing_is_judged_by_a_part_of_the_answers(server: Server) -> None:
    judge = ("--json", "--fail-on", "critical")
    with faulty(server.url) as proxy:
        proxy.holds = lambda body: "timestamp" in body and "unless" in body
        status, out = once(proxy.url, *judge, "--timeout", "4")
        assert status == 69
        assert "not all was answered" in " ".join(decode(out.encode()).sources[0].warnings)
        proxy.holds = lambda _body: False
        status, out = once(proxy.url, *judge)
    assert status == 1
    (source,) = decode(out.encode()).sources
    assert source.expected_hosts is not None
    assert not source.warnings


def test_options_that_need_all_answers_wait_for_them(server: Server) -> None:
    lost = [gpu for host in FLEET for gpu in host.gpus if gpu.does == "lost"]
    for words in (("--where", "state:lost"), ("--timeout", "30")):
        status, out = once(server.url, *words)
        assert status == 0
        assert f"{len(lost)} LOST" in out


def test_rows_that_cannot_say_what_is_missing_have_all(server: Server) -> None:
    status, out = once(server.url, "--format", "csv")
    assert status == 0
    assert out.count(",lost,") >= 2
