"""Which credentials go to which URL."""

import pytest

from gpudash.config.settings import Credentials
from gpudash.fleet.prometheus.endpoint import Endpoint, endpoint, has_credentials, parse, permitted

OWN = "https://prom.example:9090/prefix"
SETTINGS = Credentials(token_file="/token", headers={"X-Key": "key"}, ca_file="/ca.pem")


@pytest.mark.parametrize(
    ("url", "is_own"),
    [
        (OWN, True),
        ("https://PROM.example:9090", True),
        ("https://ada:secret@prom.example:9090/other?a=b", True),
        ("http://prom.example:9090/prefix", False),
        ("https://prom.example:9091/prefix", False),
        ("https://prom.example/prefix", False),
        ("https://prom.example.:9090", False),
        ("https://other.example:9090/prefix", False),
        ("https://prom.example:9090@other.example:9090/prefix", False),
        ("https://other.example:9090/https://prom.example:9090", False),
        ("https://prom.example:9090.other.example", False),
        ("https://[oops", False),
    ],
)
def test_credentials_go_to_their_scheme_host_and_port(url: str, is_own: bool) -> None:
    found = endpoint(url, SETTINGS, [OWN, "https://[oops"], token="given")
    assert has_credentials(found) is is_own
    assert (found.withheld is None) is is_own
    assert (found.token, found.ca_file) == ("given", "/ca.pem")


def test_a_port_may_be_that_of_the_scheme() -> None:
    for one, other in (("https://a", "https://a:443"), ("http://a/x", "http://a:80")):
        assert has_credentials(endpoint(one, SETTINGS, [other]))


def test_without_credentials_nothing_is_withheld() -> None:
    assert endpoint(OWN, Credentials(ca_file="/ca.pem"), []).withheld is None


@pytest.mark.parametrize(
    ("url", "is_allowed"),
    [
        ("https://prom.example", True),
        ("http://127.0.0.1:9090", True),
        ("http://localhost:9090", True),
        ("http://[::1]:9090", True),
        ("http://0.0.0.0:9090", False),
        ("http://127.0.0.1.example", False),
        ("http://10.0.0.1", False),
        ("http://prom.example", False),
    ],
)
def test_plain_http_is_for_this_machine(
    url: str, is_allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    given, address = Endpoint(url=url, token="secret"), parse(url)[0]
    found = permitted(given, address, has_login=False)
    assert (found.token, found.withheld is None) == ("secret" if is_allowed else None, is_allowed)
    allowed = Endpoint(url=url, token="secret", plain_http=True)
    assert permitted(allowed, address, has_login=False) == allowed


def test_a_proxy_on_another_machine_reads_plain_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    for proxy, is_allowed in (("http://proxy:3128", False), ("http://127.0.0.1:3128", True)):
        monkeypatch.setenv("http_proxy", proxy)
        url = "http://127.0.0.1:9090"
        found = permitted(Endpoint(url=url, token="secret"), parse(url)[0], has_login=False)
        assert (found.token is not None) is is_allowed
