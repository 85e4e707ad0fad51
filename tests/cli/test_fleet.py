from __future__ import annotations

import os

from gpudash.cli import fleet
from gpudash.cli.arguments import parse


def test_urls_go_to_the_collector_alone_and_not_by_its_command_line() -> None:
    before = dict(os.environ)
    words = "--prometheus=http://me:secret@one:9090 --prometheus=http://two:9090 --json"
    options = parse([*words.split(), "--scrape=http://n1:9400,http://n2:9400"])
    assert not any("http" in word for word in fleet.command(options))
    assert fleet.environment(options) == {
        "GPUDASH_PROMETHEUS": "http://me:secret@one:9090 http://two:9090",
        "GPUDASH_SCRAPE": "http://n1:9400,http://n2:9400",
    }
    assert dict(os.environ) == before


def test_without_urls_those_of_the_environment_stay() -> None:
    options = parse(["--prometheus", "--scrape", "--json"])
    assert fleet.environment(options) == {}
    assert fleet.command(options)[-2:] == ["--prometheus", "--scrape"]
