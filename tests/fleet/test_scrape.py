"""Exporters read directly: the same fleet, without a Prometheus and without a past."""

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.fleet.prometheus.endpoint import Endpoint
from gpudash.fleet.scrape import MAX_EXPORTERS, ScrapeSource
from gpudash.fleet.source import Reading
from gpudash.model.errors import UsageError
from gpudash.model.fleet import FleetDevice
from tests.fleet.rig.exporters import FLEET, Gpu, Host, page
from tests.fleet.rig.faults import Faulty, faulty
from tests.fleet.rig.reading import read_until

HOSTS = tuple(host for host in FLEET if not (host.is_down or host.is_frozen or host.cluster))


@pytest.fixture
def exporters() -> Iterator[list[Faulty]]:
    with ExitStack() as stack:
        servers = [stack.enter_context(faulty()) for _ in HOSTS]
        for server, host in zip(servers, HOSTS, strict=True):
            text = page(host, time.time()).encode()
            server.page = lambda path, text=text: text if path == "/metrics" else b""
        yield servers


def device(reading: Reading, host: Host, index: int) -> FleetDevice:
    names = {host.shown, "127.0.0.1"}
    return next(
        each
        for found in reading.hosts
        if found.name in names
        for each in found.devices
        if each.index == index and (each.uuid or "").startswith(f"GPU-{host.name}-")
    )


def test_reads_every_dialect(exporters: list[Faulty]) -> None:
    source = ScrapeSource([Endpoint(url=server.url) for server in exporters])
    reading = read_until(source, lambda reading: reading.report.answering_hosts == len(HOSTS))
    assert reading.report.state == "ok"
    for host in HOSTS:
        for gpu in host.gpus:
            if gpu.does == "lost":
                continue
            found = device(reading, host, gpu.index)
            is_used = gpu.does not in ("free", "allocated-unused")
            assert found.memory_used_bytes == (50_000 if is_used else 4) << 20
            assert found.memory_total_bytes == 81_559 << 20
            # Of DCGM's exporter it may have been there for ever.
            assert found.xid == (gpu.xid or None if host.dialect == "smi" else None)
            if not gpu.mig:
                assert (found.gpu_utilization_percent or 0) > 5 or gpu.does != "busy"
                assert (found.gpu_utilization_percent or 0) <= 100
    source.close(10)


def test_one_that_does_not_answer_is_down_and_delays_no_other(exporters: list[Faulty]) -> None:
    exporters[0].fault = "hang"
    exporters[1].fault = "404"
    urls = [exporters[0].url, exporters[1].url + "/here", exporters[2].url]
    source = ScrapeSource([Endpoint(url=url) for url in urls])
    reading = read_until(source, lambda reading: reading.report.answering_hosts == 1)
    read_until(
        source, lambda reading: any("no exporter here" in (h.message or "") for h in reading.hosts)
    )
    assert reading.report.state == "ok"
    exporters[0].is_ended.set()
    source.close(10)


def test_one_that_fails_at_once_ends_no_waiting_for_the_others(exporters: list[Faulty]) -> None:
    exporters[0].fault = "hang"
    refusing = Endpoint(url="http://127.0.0.1:1")
    source = ScrapeSource([refusing, Endpoint(url=exporters[0].url)])
    first = read_until(source, lambda reading: any(host.state == "down" for host in reading.hosts))
    assert (first.report.state, first.is_whole) == ("starting", False)
    exporters[0].is_ended.set()
    source.close(10)
    source = ScrapeSource([refusing, Endpoint(url=exporters[1].url)])
    reading = read_until(source, lambda reading: reading.is_whole)
    assert (reading.report.state, reading.report.answering_hosts) == ("ok", 1)
    source.close(10)


def test_what_is_no_exporter_is_said_to_be_none() -> None:
    with faulty() as server:
        server.page = lambda path: b"Hello: this is not {a metric"
        source = ScrapeSource([Endpoint(url=server.url)])
        reading = read_until(source, lambda reading: reading.report.state == "failed")
        assert "text format" in (reading.report.message or "")
        source.close(10)


@given(st.text(max_size=200))
def test_any_page_is_read_or_refused(text: str) -> None:
    with faulty() as server:
        server.page = lambda path: text.encode("utf-8", "replace")
        source = ScrapeSource([Endpoint(url=server.url)])
        reading = read_until(source, lambda reading: reading.report.state != "starting")
        assert reading.report.message
        assert all(host.state == "down" for host in reading.hosts)
        source.close(10)


def test_an_invalid_url_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="expected http://HOST"):
        ScrapeSource([Endpoint(url="http://[oops")])


def test_more_than_a_handful_are_too_many() -> None:
    with pytest.raises(UsageError, match="--prometheus"):
        ScrapeSource([Endpoint(url="http://a")] * (MAX_EXPORTERS + 1))


def test_two_exporters_that_show_the_same_gpus_are_one_host() -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(faulty()) for _ in range(2)]
        for server in servers:
            text = page(HOSTS[0], time.time()).encode()
            server.page = lambda path, text=text: text if path == "/metrics" else b""
        source = ScrapeSource([Endpoint(url=server.url) for server in servers])
        reading = read_until(source, lambda reading: reading.is_whole)
        source.close(10)
    assert [each.name for each in reading.hosts] == [HOSTS[0].name]
    assert (reading.report.answering_hosts, reading.report.expected_hosts) == (1, 1)


def test_a_host_without_the_utilization_that_others_have_is_there() -> None:
    """Exporters have lists of metrics of their own, and MIG instances no utilization."""
    divided = Host("d", gpus=(Gpu(0, mig=(7, 8)),))
    left_out = {"a": "?", "b": "GPU_UTIL", "c": "GPU_UTIL|FI_PROF", "d": "FI_PROF"}
    hosts = {"a": Host("a"), "b": Host("b"), "c": Host("c"), "d": divided}
    with ExitStack() as stack:
        servers = [stack.enter_context(faulty()) for _ in hosts]
        for server, (name, host) in zip(servers, hosts.items(), strict=True):
            names = left_out[name].split("|")
            lines = page(host, time.time()).splitlines(keepends=True)
            kept = (line for line in lines if not any(each in line for each in names))
            text = "".join(kept).encode()
            server.page = lambda path, text=text: text if path == "/metrics" else b""
        source = ScrapeSource([Endpoint(url=server.url) for server in servers])
        reading = read_until(source, lambda reading: reading.report.answering_hosts == len(hosts))
        source.close(10)
    shown = {
        host.name: [each.gpu_utilization_percent is not None for each in host.devices]
        for host in reading.hosts
    }
    both, neither = [True, True], [False, False]
    assert shown == {"a": both, "b": both, "c": neither, "d": [False, *neither]}
