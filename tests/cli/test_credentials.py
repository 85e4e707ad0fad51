"""What servers get to see of credentials: those of their own origin, and no others."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from gpudash.cli.arguments import parse
from gpudash.cli.fleet import open_collector
from gpudash.fleet.collector import is_settled
from gpudash.model.fleet import FleetSource
from tests.fleet.rig.faults import Faulty, faulty
from tests.waiting import until

FLEET, EXPORTERS = ("Bearer fleet-token", "fleet-key"), ("Bearer exporter-token", "exporter-key")
TOKEN, NONE = ("Bearer environment-token", None), (None, None)
WITH_TOKEN = {"GPUDASH_PROM_TOKEN": "environment-token"}
WITHHELD = "the credentials in the settings are for other URLs: add this one beside them"
REMOTE = "http://0.0.0.0:{port}"
"""Leads to the server `own`, and is no address of loopback."""


class Servers:
    """Three servers that refuse all requests, and settings with credentials for two of them."""

    def __init__(self, folder: Path, servers: dict[str, Faulty]) -> None:
        self._folder, self.servers = folder, servers
        self._urls = {name: server.url for name, server in servers.items()}
        port = servers["own"].url.rpartition(":")[2]
        self._urls |= {"port": port, "remote": REMOTE.format(port=port)}
        for server in servers.values():
            server.fault = "401"

    def fill(self, text: str) -> str:
        return text.format(**self._urls)

    def ask(self, words: str, environ: dict[str, str], more: str = "") -> list[FleetSource]:
        """Let gpudash ask once; `more` goes into both tables of the settings."""
        settings = []
        for table, urls, name in (
            ("fleet", "prometheus = ['{own}', '{remote}']", "fleet"),
            ("exporters", "urls = ['{exporter}']", "exporter"),
        ):
            token = self._folder / name
            token.write_text(f"{name}-token\n")
            settings += [f"[{table}]", self.fill(urls), f"token_file = '{token}'"]
            settings += [f"headers = {{ X-Key = '{name}-key' }}", more]
        file = self._folder / "config.toml"
        file.write_text("\n".join(settings))
        given = {name: self.fill(value) for name, value in environ.items()}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {"no_proxy": "*", "GPUDASH_CONFIG": str(file), **given}.items():
                patch.setenv(name, value)
            options = parse(["--once", "--json", *self.fill(words).split()])
            with closing(open_collector(options)) as collector:
                until(lambda: collector.advance() or is_settled(collector.read()))
                return [reading.report for reading in collector.read()]

    def seen(self) -> dict[str, set[tuple[Any, ...]]]:
        """What each server that was asked has seen."""
        return {
            name: {(each.headers.get("Authorization"), each.headers.get("X-Key")) for each in found}
            for name, found in ((name, server.seen) for name, server in self.servers.items())
            if found
        }


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    with ExitStack() as stack:
        names = ("own", "other", "exporter")
        yield Servers(tmp_path, {name: stack.enter_context(faulty()) for name in names})


@pytest.mark.parametrize(
    ("words", "environ", "seen"),
    [
        ("--prometheus {own}", {}, {"own": FLEET}),
        ("--prometheus {own}/prefix", WITH_TOKEN, {"own": FLEET}),
        ("", {"GPUDASH_PROMETHEUS": "{own}"}, {"own": FLEET}),
        ("--prometheus {other}", {}, {"other": NONE}),
        ("--prometheus http://localhost:{port}", {}, {"own": NONE}),
        ("--prometheus {other}", WITH_TOKEN, {"other": TOKEN}),
        ("", {"GPUDASH_PROMETHEUS": "{other}"}, {"other": NONE}),
        ("", {"GPUDASH_PROMETHEUS": "{other}", **WITH_TOKEN}, {"other": TOKEN}),
        ("--prometheus {own} --prometheus {other}", {}, {"own": FLEET, "other": NONE}),
        ("--no-config --prometheus {own}", WITH_TOKEN, {"own": TOKEN}),
        ("--prometheus {exporter}", {}, {"exporter": NONE}),
        ("--prometheus {remote}", WITH_TOKEN, {"own": NONE}),
        ("--scrape {exporter}", WITH_TOKEN, {"exporter": EXPORTERS}),
        ("--scrape", {}, {"exporter": EXPORTERS}),
        ("--scrape {other},{exporter}", WITH_TOKEN, {"other": NONE, "exporter": EXPORTERS}),
        ("--scrape {own}", WITH_TOKEN, {"own": NONE}),
        ("--scrape", {"GPUDASH_SCRAPE": "{other}", **WITH_TOKEN}, {"other": NONE}),
        ("--scrape --prometheus {other}", WITH_TOKEN, {"exporter": EXPORTERS, "other": TOKEN}),
    ],
)
def test_a_credential_goes_to_its_own_origin_alone(
    servers: Servers, words: str, environ: dict[str, str], seen: dict[str, object]
) -> None:
    servers.ask(words, environ)
    assert servers.seen() == {name: {credentials} for name, credentials in seen.items()}


def test_plain_http_to_another_machine_takes_a_setting(servers: Servers) -> None:
    (source,) = servers.ask("--prometheus {remote}", {}, "plain_http = false")
    assert servers.seen() == {"own": {NONE}}
    assert "needs a login (401)" in str(source.message)
    assert "not sent over plain http to another machine" in str(source.message)
    (source,) = servers.ask("--prometheus {remote}", {}, "plain_http = true")
    assert servers.seen() == {"own": {NONE, FLEET}}
    assert "refuses the token" in str(source.message)
    assert "plain http" not in str(source.message)


def test_a_login_within_a_url_goes_over_plain_http_by_the_same_setting(servers: Servers) -> None:
    url = "--no-config --prometheus " + REMOTE.replace("//", "//ada:secret@")
    (source,) = servers.ask(url, {})
    assert servers.seen() == {"own": {NONE}}
    assert "plain http" in str(source.message)


@pytest.mark.parametrize(
    ("words", "status", "is_said"),
    [
        ("--prometheus {other}", "401", True),
        ("--prometheus {other}", "403", True),
        ("--scrape {other}", "302", True),
        ("--prometheus {own}", "403", False),
        ("--scrape {exporter}", "401", False),
    ],
)
def test_what_is_withheld_is_said_where_the_request_fails(
    servers: Servers, words: str, status: str, is_said: bool
) -> None:
    for server in servers.servers.values():
        server.fault = status
    (source,) = servers.ask(words, {})
    assert (WITHHELD in str(source.message)) is is_said
    assert "\n" not in str(source.message)


def test_exporters_without_credentials_name_their_settings(servers: Servers) -> None:
    (source,) = servers.ask("--no-config --scrape {other}", WITH_TOKEN)
    assert "GPUDASH_PROM_TOKEN and the credentials in [fleet] are not for" in str(source.message)
    (source,) = servers.ask("--no-config --scrape {other}", {})
    assert str(source.message).endswith("needs a login (401); see [exporters] in the settings")


def test_no_credential_follows_a_redirect(servers: Servers) -> None:
    own, other = servers.servers["own"], servers.servers["other"]
    own.fault = f"redirect={other.url}/api/v1/query"
    (source,) = servers.ask("--prometheus {own}", {})
    assert servers.seen() == {"own": {FLEET}}
    assert f"redirects to {other.url}: not followed" in str(source.message)
