"""Requests to a server that does all that servers and what stands before them do."""

import gc
import json
import shutil
import ssl
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from gpudash.config.settings import Credentials
from gpudash.fleet.prometheus.client import Client
from gpudash.fleet.prometheus.endpoint import Endpoint, endpoint
from gpudash.fleet.prometheus.failures import PrometheusError, public_url
from gpudash.model.errors import UsageError
from gpudash.model.text import clean
from tests.fleet.rig.faults import SUCCESS, Faulty, faulty

QUERY = "/api/v1/query"
SECRET = "s3cret-t0ken"
PATIENCE = 60.0
LONG = 'max by (gpu) (x{host="a"}) or ' * 9


@pytest.fixture
def server() -> Iterator[Faulty]:
    with faulty() as running:
        yield running


def ask(client: Client, seconds: float = PATIENCE) -> bytes:
    return client.request(QUERY, [("query", "up")], seconds)


def refused(client: Client, seconds: float = PATIENCE) -> PrometheusError:
    with pytest.raises(PrometheusError) as caught:
        ask(client, seconds)
    client.close()
    return caught.value


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("401", "needs a login"),
        ("403", "forbids the query"),
        ("404", "no Prometheus here"),
        ("429", "fewer requests"),
        ('422={"status":"error","errorType":"execution","error":"too many samples"}', "execution"),
        ('503={"status":"error","errorType":"timeout","error":"timed out"}', "timeout: timed out"),
        ("500", "answers 500"),
        ("500=no quorum\n", "answers 500 Internal Server Error: no quorum"),
        ("403=Forbidden (user=ada)", "forbids the query (403): Forbidden (user=ada)"),
        ("403=403 Forbidden\n", "forbids the query (403)END"),
        ("502=Bad Gateway", "answers 502 Bad GatewayEND"),
        ("401=no org id", "needs a tenant (401 no org id): set X-Scope-OrgID"),
        (
            '422={"status":"error","errorType":"execution","error":"the query exceeded the maximum '
            'number of series (limit: 9 series) (err-mimir-max-series-per-query)"}',
            "execution: the query exceeded the maximum number of series (limit: 9 series) "
            "(err-mimir-max-series-per-query) (422)",
        ),
        ('422={"status":"error","errorType":"422","error":"too many"}', "too many (422)"),
        ('400=unsupported path requested: "/x/api/v1/query"', "a part of the path missing?"),
        (
            '422={"error":"query=' + "max(x)" * 99 + ': too many series"}',
            "): too many series (422)",
        ),
        (
            "422=" + json.dumps({"error": f"query={json.dumps(LONG)} at 9: too many series"}),
            'query="…" at 9: too many series (422)',
        ),
        ("502=<html>bad</html>", "web page"),
        ("html", "a login page"),
        ("redirect=https://u:p@login.example/x/api/v1/query?a=b", "https://login.example/x:"),
        ("redirect=http://u:p@[oops/x", "redirects to an invalid URL: not followed"),
        ("gzip-cut", "cut off"),
        ("gzip-none", "cut off"),
        ("gzip-bad", "no valid gzip"),
        ("chunks-cut", "cut off"),
        ("cut", "cut off"),
        ("huge", "more than 64 MiB"),
        ("reset", "closed the connection"),
    ],
)
def test_each_fault_is_one_clear_line(server: Faulty, fault: str, words: str) -> None:
    server.fault = fault
    client = Client(Endpoint(url=server.url))
    message = str(refused(client))
    assert words in f"{message}END"
    assert "\n" not in message
    server.fault = ""
    assert ask(client) == SUCCESS
    client.close()


@pytest.mark.parametrize("fault", ["hang", "slow-head", "slow-body"])
def test_a_deadline_is_over_all_of_a_request(server: Faulty, fault: str) -> None:
    server.fault = fault
    assert "in time" in str(refused(Client(Endpoint(url=server.url)), seconds=0.3))


def test_busy_servers_are_told_from_others(server: Faulty) -> None:
    server.fault = "503"
    assert refused(Client(Endpoint(url=server.url))).is_busy
    server.fault = "404"
    assert not refused(Client(Endpoint(url=server.url))).is_busy


def test_keeps_its_connection_and_opens_another_when_it_was_closed(server: Faulty) -> None:
    client = Client(Endpoint(url=server.url))
    ask(client)
    server.fault = "gzip"
    assert ask(client) == SUCCESS
    server.fault = "close"
    ask(client)
    ask(client)
    client.close()
    first, second, third, fourth = (each.port for each in server.seen)
    assert first == second == third != fourth


def test_repeats_what_failed_on_a_kept_connection_but_not_on_a_new_one(server: Faulty) -> None:
    client = Client(Endpoint(url=server.url))
    server.fault = "reset"
    refused(client)
    assert len(server.seen) == 1
    server.fault = ""
    ask(client)
    server.fault = "reset"
    refused(client)
    kept, again, another = (each.port for each in server.seen[1:])
    assert kept == again != another


def test_asks_by_a_form_and_by_get_where_that_is_all_there_is(server: Faulty) -> None:
    client = Client(Endpoint(url=server.url + "/prefix/"))
    ask(client)
    server.methods = ("GET",)
    ask(client)
    ask(client)
    client.close()
    assert [each.method for each in server.seen] == ["POST", "POST", "GET", "GET"]
    assert server.seen[0].path == f"/prefix{QUERY}"
    assert parse_qs(server.seen[0].body) == {"query": ["up"]}
    assert server.seen[-1].path == f"/prefix{QUERY}?query=up"


def test_secrets_are_masked(server: Faulty) -> None:
    server.fault = f'400={{"error":"bad token {SECRET} \\u001b[2J"}}'
    message = str(refused(Client(Endpoint(url=server.url, token=SECRET))))
    assert SECRET not in message
    assert message.isprintable()
    assert public_url(f"https://ada:{SECRET}@prom/a/?token={SECRET}") == "https://prom/a"


def test_logs_in_by_the_url_or_by_a_password_file(server: Faulty, tmp_path: Path) -> None:
    server.authorization = "Basic YWRhOmE6Yg=="
    ask(client := Client(Endpoint(url=server.url.replace("//", "//ada:a%3Ab@"))))
    client.close()
    password = tmp_path / "password"
    password.write_text("a:b\n")
    ask(client := Client(Endpoint(url=server.url, user="ada", password_file=str(password))))
    client.close()
    password.write_text("wrong")
    client = Client(Endpoint(url=server.url, user="ada", password_file=str(password)))
    assert "refuses the token or password" in str(refused(client))


def test_reads_a_token_file_again(server: Faulty, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one\n")
    client = Client(Endpoint(url=server.url, token_file=str(token)))
    server.authorization = "Bearer one"
    ask(client)
    token.write_text("two")
    server.authorization = "Bearer two"
    ask(client)
    token.unlink()
    assert f"cannot read {token}" in str(refused(client))


def test_runs_a_token_command_again_after_a_refusal(server: Faulty, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one")
    client = Client(Endpoint(url=server.url, token_command=("cat", str(token))))
    server.authorization = "Bearer one"
    ask(client)
    token.write_text("two")
    ask(client)
    server.authorization = "Bearer two"
    ask(client)
    token.unlink()
    server.authorization = "Bearer three"
    assert "token_command cat failed" in str(refused(client))


def test_sends_headers(server: Faulty) -> None:
    ask(client := Client(Endpoint(url=server.url, headers={"X-Scope-OrgID": "a|b é\tc"})))
    client.close()
    assert server.seen[0].headers["X-Scope-OrgID"] == "a|b é\tc"


@pytest.mark.parametrize("name", ["X Scope", "X-Scope:", "X-Scope\n", "Łab", "\x1b[2J", ""])
def test_a_header_with_an_odd_name_is_a_usage_error(name: str) -> None:
    with pytest.raises(UsageError, match="cannot send the header") as caught:
        Client(Endpoint(url="http://prom", headers={"X-Fine": "a", name: SECRET}))
    assert clean(name) in str(caught.value)
    assert str(caught.value).isprintable()
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("odd", ["Łab", "\n", "\r\n X-Other: a", "\0", "\x7f"])
def test_a_header_with_an_odd_value_is_a_usage_error(odd: str) -> None:
    with pytest.raises(UsageError, match="cannot send the header 'X-Scope-OrgID'") as caught:
        Client(Endpoint(url="http://prom", headers={"X-Scope-OrgID": SECRET + odd}))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("scheme", ["http://", ""])
def test_goes_through_the_proxy_of_the_environment(
    server: Faulty, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setenv("http_proxy", server.url.replace("http://", f"{scheme}ada:p%C5%82@"))
    monkeypatch.delenv("no_proxy", raising=False)
    ask(client := Client(Endpoint(url="http://prom.example:9090/x")))
    client.close()
    assert server.seen[0].path == f"http://prom.example:9090/x{QUERY}"
    assert server.seen[0].headers["Proxy-Authorization"] == "Basic YWRhOnDFgg=="


def test_a_host_may_have_a_name_in_any_script(
    server: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.delenv("no_proxy", raising=False)
    ask(client := Client(Endpoint(url="http://b\u00fccher.example")))
    client.close()
    assert server.seen[0].path == f"http://xn--bcher-kva.example:80{QUERY}"


def test_no_proxy_names_hosts_ports_and_networks(
    server: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    port = server.url.rpartition(":")[2]
    for exempt in ("127.0.0.1", f"a,127.0.0.1:{port}", "10.0.0.0/8, 127.0.0.0/8"):
        monkeypatch.setenv("no_proxy", exempt)
        client = Client(Endpoint(url=server.url))
        assert ask(client) == SUCCESS
        client.close()
    monkeypatch.setenv("no_proxy", "10.0.0.0/8,::/0,a/b,prom")
    assert "through the proxy" in str(refused(Client(Endpoint(url=server.url))))


@pytest.mark.parametrize(
    "proxy", ["socks5://ada:s3cret-t0ken@proxy:1", "http://a:b:c", "http://%zz", "https://p"]
)
def test_a_proxy_that_cannot_be_used_is_a_usage_error(
    proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", proxy)
    with pytest.raises(UsageError, match="cannot use the proxy") as caught:
        Client(Endpoint(url="https://prom.example"))
    assert SECRET not in str(caught.value)


PROXY_FAULTS = [
    ("407", "the proxy http://127.0.0.1:PORT refuses the login (407)"),
    (
        "403",
        "through the proxy http://127.0.0.1:PORT: forbids the query (403)|"
        "the proxy http://127.0.0.1:PORT refuses the connection: 403 Forbidden",
    ),
    ("hang", "through the proxy http://127.0.0.1:PORT: no whole answer in time"),
    ("slow-head", "through the proxy http://127.0.0.1:PORT: no whole answer in time"),
    ("reset", "through the proxy http://127.0.0.1:PORT: closed the connection"),
]


@pytest.mark.parametrize(("fault", "words"), PROXY_FAULTS)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_each_fault_of_a_proxy_is_one_clear_line(
    server: Faulty, monkeypatch: pytest.MonkeyPatch, scheme: str, fault: str, words: str
) -> None:
    monkeypatch.setenv(f"{scheme}_proxy", server.url.replace("//", f"//ada:{SECRET}@"))
    monkeypatch.delenv("no_proxy", raising=False)
    server.fault = fault
    message = str(refused(Client(Endpoint(url=f"{scheme}://prom.example")), seconds=0.5))
    expected = words.replace("PORT", server.url.rpartition(":")[2]).split("|")
    assert any(each in message for each in expected)
    assert SECRET not in message
    assert "\n" not in message


def test_a_proxy_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with faulty() as gone:
        pass
    monkeypatch.setenv("https_proxy", gone.url)
    monkeypatch.delenv("no_proxy", raising=False)
    message = str(refused(Client(Endpoint(url="https://prom.example"))))
    port = gone.url.rpartition(":")[2]
    assert message == f"through the proxy {gone.url}: refuses connections on port {port}"


BAD_URLS = "prom:9090", "ftp://prom", "http://", "http://a:b:c", "http://a b", "http://a:99999"


@pytest.mark.parametrize("url", ["", *BAD_URLS, "http://[oops", "http://a/ł"])
def test_an_invalid_url_is_a_usage_error(url: str) -> None:
    with pytest.raises(UsageError, match="expected http://HOST"):
        Client(Endpoint(url=url))


def test_a_host_that_no_name_server_can_have() -> None:
    assert "cannot resolve a..b: " in str(refused(Client(Endpoint(url="http://a..b"))))


def test_its_library_writes_nothing_over_the_screen() -> None:
    code = (
        "import gpudash.fleet.prometheus.client, logging, warnings\n"
        "from urllib3.exceptions import SystemTimeWarning\n"
        "logging.getLogger('urllib3.connectionpool').warning('a')\n"
        "warnings.warn_explicit('b', SystemTimeWarning, 'c', 1, 'urllib3.connection')\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert run.stderr == b""


def test_a_failure_leaves_nothing_to_the_garbage_collector() -> None:
    with faulty() as other:
        pass

    def fail() -> None:
        for url in (other.url, "http://a..b"):
            client = Client(Endpoint(url=url))
            try:
                ask(client)
            except PrometheusError:
                client.close()

    fail()
    gc.collect()
    gc.disable()
    try:
        fail()
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_the_query_of_an_exporter_is_sent_as_it_is(server: Faulty) -> None:
    query = "?a=%FF&debug&x=1;y=2"
    client = Client(Endpoint(url=f"{server.url}/metrics{query}"), "exporter")
    client.request("", [], PATIENCE)
    client.close()
    assert server.seen[0].path == f"/metrics{query}"


def test_nothing_listens(server: Faulty) -> None:
    with faulty() as other:
        pass
    assert "refuses connections" in str(refused(Client(Endpoint(url=other.url))))


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, str]:
    """A certificate for the address of loopback, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    files = str(tmp_path / "certificate"), str(tmp_path / "key")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += [
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=rig",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
    ]
    subprocess.run(
        [*command, "-out", files[0], "-keyout", files[1]], check=True, capture_output=True
    )
    return files


def strict(certificate: tuple[str, str]) -> ssl.SSLContext:
    """A server that serves none without the certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(certificate[0])
    return context


def test_checks_certificates_and_shows_its_own(certificate: tuple[str, str]) -> None:
    with faulty(context=strict(certificate)) as server:
        url = server.url
        assert "certificate" in str(refused(Client(Endpoint(url=url))))
        trusted = Endpoint(
            url=url,
            ca_file=certificate[0],
            certificate_file=certificate[0],
            key_file=certificate[1],
        )
        ask(client := Client(trusted))
        client.close()
    with pytest.raises(UsageError, match="cannot use the certificates"):
        Client(Endpoint(url="https://a", ca_file="/nonexistent"))


def test_shows_its_certificate_to_its_own_origin_alone(certificate: tuple[str, str]) -> None:
    settings = Credentials(
        ca_file=certificate[0], certificate_file=certificate[0], key_file=certificate[1]
    )
    with ExitStack() as stack:
        own, other = (stack.enter_context(faulty(context=strict(certificate))) for _ in range(2))
        ask(client := Client(endpoint(own.url, settings, [own.url])))
        client.close()
        message = str(refused(Client(endpoint(other.url, settings, [own.url]))))
    assert message.endswith("are for other URLs: add this one beside them")
    assert other.seen == []


def test_goes_through_a_proxy_to_a_server_with_tls(
    server: Faulty, certificate: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    monkeypatch.setenv("https_proxy", server.url.replace("//", f"//ada:{SECRET}@"))
    monkeypatch.delenv("no_proxy", raising=False)
    with faulty(context=context) as behind:
        client = Client(Endpoint(url=behind.url, ca_file=certificate[0], token="token"))
        assert ask(client) == SUCCESS
        assert ask(client) == SUCCESS
        assert "certificate is not valid" in str(refused(Client(Endpoint(url=behind.url))))
        client.close()
        assert {each.headers["Authorization"] for each in behind.seen} == {"Bearer token"}
    first, _ = server.seen
    assert (first.method, first.path) == ("CONNECT", behind.url.partition("//")[2])
    login = b64encode(f"ada:{SECRET}".encode()).decode()
    assert first.headers["Proxy-Authorization"] == f"Basic {login}"
    assert "Authorization" not in first.headers
