"""The kinds of sources of many hosts: the options of each, and the module that opens it.

Every start reads this table, so a source's imports happen only when it is opened.
"""

# Annotations are not postponed: NamedTuple would compile each of them at every start.
import re
from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Options = Mapping[str, dict[str, Any]]
"""Options by name, as declared for argparse; None if not given."""
_NONE: Options = {}

_ONE_HOST = r"[\w.%+-]+(@[\w.:%+-]+)?|[\w.:%+-]*::[\w.:%+-]*"
DEFAULT_DEMO = "dgx-h100"
DEMO_OF_ONE = f"simulate a host ({DEFAULT_DEMO})"
"""Help for --demo in commands that do not support many hosts."""


class SourceKind(NamedTuple):
    """A kind of source. Its module has `opened(options, settings)`, which yields its sources."""

    module: str
    options: Options = _NONE
    """Options that open it; a kind without any is opened with all others, and decides itself."""
    more: Options = _NONE
    """Options that only affect it together with those."""
    variable: str | None = None
    """The variable that passes the options to a collector, as they may be secret."""
    means_many: Callable[[Namespace], bool] = lambda _: True
    """Whether a given option means many hosts rather than one."""
    interval: float = 2.0
    """Seconds between two snapshots, unless the user chooses."""
    has_past: bool = False
    """Whether it knows instants from before the watch began."""
    annotates: bool = False
    """Whether it adds data about hosts, but does not decide which are shown: a scheduler."""
    knows_drained: bool = False
    """Whether it knows which hosts are drained."""
    monitors: bool = False
    """Whether a scheduler's hosts that it does not know are unmonitored."""
    reports: bool = False
    """Whether `gpudash report` takes its options."""

    def is_asked(self, options: Namespace) -> bool:
        """Whether one of its options was given."""
        return any(getattr(options, dest(name)) is not None for name in self.options)


def dest(option: str) -> str:
    """Return the name of an option in the namespace."""
    return option.replace("-", "_")


def _names_many(options: Namespace) -> bool:
    names: list[str] = options.host or []
    is_one = len(names) == 1 and re.fullmatch(_ONE_HOST, names[0])
    return options.hosts_file is not None or not is_one


def _urls(metavar: str, text: str) -> dict[str, Any]:
    return {"nargs": "?", "const": "", "action": "append", "metavar": metavar, "help": text}


SOURCES: Mapping[str, SourceKind] = {
    "ssh": SourceKind(
        "gpudash.fleet.ssh_source",
        {
            "host": {
                "action": "append",
                "metavar": "NAMES",
                "help": "hosts to reach by ssh: lab7, gpu[01-16], @group, slurm:PARTITION, "
                "slurm:JOBID",
            },
            "hosts-file": {"metavar": "FILE", "help": "hosts to reach by ssh, one a line"},
        },
        {"ssh-config": {"metavar": "FILE", "help": "ssh's configuration, as with ssh -F"}},
        means_many=_names_many,
        reports=True,
    ),
    "prometheus": SourceKind(
        "gpudash.fleet.prometheus.source",
        {
            "prometheus": _urls(
                "URL",
                "hosts that a Prometheus knows; without a URL those of GPUDASH_PROMETHEUS or the "
                "settings",
            )
        },
        variable="GPUDASH_PROMETHEUS",
        interval=10.0,
        has_past=True,
        monitors=True,
        reports=True,
    ),
    "scrape": SourceKind(
        "gpudash.fleet.scrape",
        {
            "scrape": _urls(
                "URLS",
                "hosts of exporters, read without a Prometheus: http://n1:9400,http://n2:9400; "
                "without URLs those of GPUDASH_SCRAPE or the settings",
            )
        },
        variable="GPUDASH_SCRAPE",
    ),
    "demo": SourceKind(
        "gpudash.fleet.demo",
        {
            "demo": {
                "nargs": "?",
                "const": DEFAULT_DEMO,
                "metavar": "NAME",
                "help": f"{DEMO_OF_ONE}, or many: fleet, fleet-64x8",
            }
        },
        means_many=lambda options: options.demo.partition("-")[0] == "fleet",
        has_past=True,
        knows_drained=True,
        reports=True,
    ),
    "slurm": SourceKind("gpudash.fleet.slurm", annotates=True, knows_drained=True),
}
"""Every kind by its name in documents, in the order in which sources are opened and hosts
are merged.
"""

WITH_PAST = frozenset(name for name, kind in SOURCES.items() if kind.has_past)
ANNOTATING = frozenset(name for name, kind in SOURCES.items() if kind.annotates)
DRAINING = frozenset(name for name, kind in SOURCES.items() if kind.knows_drained)
MONITORING = frozenset(name for name, kind in SOURCES.items() if kind.monitors)
OPTIONS: Options = {
    name: declared
    for kind in SOURCES.values()
    for options in (kind.options, kind.more)
    for name, declared in options.items()
}
"""The options of all kinds."""
