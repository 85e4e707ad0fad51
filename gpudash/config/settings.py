"""The settings with their kinds: the valid values of each, and the mistake in any other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Annotated, Any, Protocol, get_args

import msgspec
from msgspec import Meta, Struct

from gpudash.model.text import clean, did_you_mean

_SHOWN = 60
_MAX_LISTED = 40
"""Maximum number of names that a mistake lists; beyond that, it says where to find them."""

_MAX_MEANT = 3
_MODIFIERS = frozenset({"ctrl", "alt", "shift"})
_SOME_ITEM = " - at `$[...]`"
"""msgspec's suffix for an item of a table: it does not say which."""
_KEYS_EXAMPLE = 'action = ["key"]'
_WHERE_LISTED = "GPUDASH_CONFIG=new.toml gpudash config init lists all in a new file"

Price = Annotated[float, Meta(ge=0, le=1e9)]
"""Of a GPU hour, in the user's currency."""
MetricName = Annotated[str, Meta(pattern="^[a-zA-Z_:][a-zA-Z0-9_:]*$")]


class Choices(Struct, frozen=True, kw_only=True):
    """The valid names, which only the screen knows."""

    themes: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    orders: tuple[str, ...] = ()
    """The sort orders of processes: the columns, and tree."""
    panels: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    """Names of the keys that do not type a character."""


class Checked(Struct, frozen=True):
    """The valid part of a value from the file, and the mistakes in the rest."""

    value: Any
    """None if no part is valid."""
    mistakes: tuple[tuple[str, str], ...] = ()
    """The position within the setting ("" for all of it), and the problem in words."""


class Kind(Protocol):
    """A kind of values of a setting."""

    def check(self, value: object, choices: Choices) -> Checked:
        """Return the valid part of a value and the errors in the rest."""

    def valid(self, choices: Choices) -> str:
        """Return the valid values in words."""


class Number(Struct, frozen=True):
    """A number within bounds."""

    minimum: float
    maximum: float
    unit: str

    def check(self, value: object, choices: Choices) -> Checked:
        """Accept integers too."""
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            return _wrong(f"{shown(value)} is not a number: expected {self.valid(choices)}")
        if not self.minimum <= value <= self.maximum:
            return _wrong(f"{shown(value)} is out of range: expected {self.valid(choices)}")
        return Checked(float(value))

    def valid(self, choices: Choices) -> str:
        """Give the bounds."""
        return f"{self.minimum:g} to {self.maximum:g} {self.unit}"


class Flag(Struct, frozen=True):
    """A boolean."""

    def check(self, value: object, choices: Choices) -> Checked:
        """Accept only a boolean: 0 and "no" are mistakes."""
        if isinstance(value, bool):
            return Checked(value)
        return _wrong(f"{shown(value)} is not a boolean: expected {self.valid(choices)}")

    def valid(self, choices: Choices) -> str:
        """List both in TOML's spelling."""
        return "true or false"


class _Named(Struct, frozen=True):
    """A kind of values that are among the names of one field of `Choices`."""

    names: str
    """The field of `Choices` with the names."""

    def valid(self, choices: Choices) -> str:
        """List the names."""
        return _listed(getattr(choices, self.names))


class OneOf(_Named, frozen=True):
    """One of some names."""

    def check(self, value: object, choices: Choices) -> Checked:
        """Accept an existing name."""
        problem = _problem(value, getattr(choices, self.names))
        return Checked(value) if problem is None else _wrong(problem)


class SomeOf(_Named, frozen=True):
    """Any number of these names, each once, in the given order."""

    def check(self, value: object, choices: Choices) -> Checked:
        """Keep the existing names."""
        if not isinstance(value, list):
            return _wrong(f'{shown(value)} is not a list: write ["..."] with {self.valid(choices)}')
        names = getattr(choices, self.names)
        problems = [(item, _problem(item, names)) for item in value]
        kept = tuple(dict.fromkeys(item for item, problem in problems if problem is None))
        mistakes = tuple(("", problem) for _, problem in problems if problem is not None)
        return Checked(kept if kept or not value else None, mistakes)

    def mistaken(self, value: object, choices: Choices) -> list[object]:
        """Return the items of a list that are not valid."""
        names = getattr(choices, self.names)
        items = value if isinstance(value, list) else []
        return [item for item in items if _problem(item, names) is not None]


class Keys(_Named, frozen=True):
    """The keys of some actions; an empty list removes the keys of one."""

    def check(self, value: object, choices: Choices) -> Checked:
        """Keep the existing actions, and of two with the same key the first."""
        if not isinstance(value, dict):
            return _wrong(
                f"{shown(value)} is not a table: write [keys] and below it {_KEYS_EXAMPLE}"
            )
        kept: dict[str, tuple[str, ...]] = {}
        mistakes: list[tuple[str, str]] = []
        takers: dict[str, str] = {}
        for action, keys in value.items():
            problem = _problem(action, getattr(choices, self.names))
            problem = problem or _keys_problem(keys, choices.keys)
            if problem is not None:
                mistakes.append((action, problem))
                continue
            taken = [key for key in keys if takers.setdefault(key, action) != action]
            mistakes += [(action, f"{shown(key)} is a key of {takers[key]}") for key in taken]
            if len(taken) < len(keys) or not keys:
                kept[action] = tuple(dict.fromkeys(key for key in keys if key not in taken))
        return Checked(kept, tuple(mistakes))


class Table(Struct, frozen=True):
    """A table of settings with its own heading."""

    type: type[Struct]

    def check(self, value: object, choices: Choices) -> Checked:
        """Keep the valid part of a table."""
        if not isinstance(value, dict):
            return _wrong(f"{shown(value)} is not a table: {self.valid(choices)}")
        fields = {field.name: field for field in msgspec.structs.fields(self.type)}
        kept: dict[str, Any] = {}
        mistakes: list[tuple[str, str]] = []
        for name, item in value.items():
            if name not in fields:
                hint = f"{nearest(name, fields)}choose from {', '.join(fields)}"
                mistakes.append((name, f"is unknown: {hint}"))
                continue
            try:
                kept[name] = msgspec.convert(item, fields[name].type)
            except msgspec.ValidationError as error:
                problem = clean(str(error).removesuffix(_SOME_ITEM))
                example = example_of(fields[name])
                mistakes.append((name, f"{problem}: expected such as {example}"))
        return Checked(self.type(**kept), tuple(mistakes))

    def valid(self, choices: Choices) -> str:
        """List the settings of the table."""
        return _listed(self.type.__struct_fields__)


def example_of(field: msgspec.structs.FieldInfo) -> str:
    """Return an example value of a table's setting in TOML."""
    meta: Meta = get_args(field.type)[1]
    return str((meta.extra or {})["example"])


def shown(value: object) -> str:
    """Return a value of a file for a message: shortened, cleaned, with texts in quotes."""
    text = f'"{value}"' if isinstance(value, str) else str(value).lower()
    return clean(text, _SHOWN)


def nearest(word: str, names: Iterable[str]) -> str:
    """Return `did you mean name? `, or empty if none is similar."""
    found = did_you_mean(word, names)
    return f"{found} " if found else ""


def _wrong(problem: str) -> Checked:
    return Checked(None, (("", problem),))


def _problem(value: object, names: Collection[str]) -> str | None:
    """Return the error in a name, None for a valid one."""
    if not isinstance(value, str):
        return f"{shown(value)} is not a string: choose from {_listed(names)}"
    if value in names:
        return None
    if len(names) <= _MAX_LISTED:
        return f"{shown(value)} is unknown: {nearest(value, names)}choose from {_listed(names)}"
    return f"{shown(value)} is unknown: {_namesakes(value, names)}{_WHERE_LISTED}"


def _namesakes(word: str, names: Iterable[str]) -> str:
    """Return `did you mean a.name or b.name? ` if there are such, else the result of `nearest`."""
    last = word.rpartition(".")[2].lower()
    found = [name for name in names if name.rpartition(".")[2] == last][:_MAX_MEANT]
    return f"did you mean {' or '.join(found)}? " if found else nearest(word, names)


def _keys_problem(keys: object, names: Collection[str]) -> str | None:
    if not isinstance(keys, list):
        return f"{shown(keys)} is not a list: write {_KEYS_EXAMPLE}"
    for key in keys:
        if not isinstance(key, str) or not _is_key(key, names):
            hint = nearest(key, names) if isinstance(key, str) and len(key) > 1 else ""
            return f'{shown(key)} is not a key: {hint}expected such as "x", "ctrl+x" or "f9"'
    return None


def _is_key(key: str, names: Collection[str]) -> bool:
    """Whether a terminal can send it: a character, or a name, with optional modifiers."""
    *held, last = [key] if len(key) == 1 else key.split("+")
    if not set(held) <= _MODIFIERS or len(set(held)) < len(held):
        return False
    if len(last) != 1:
        return last in names
    if not last.isprintable() or last in " ,":
        return False
    return not held or (last == last.lower() and held != ["shift"])


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def plain(value: object) -> Any:
    """Return a setting in TOML's types: tuples become lists."""
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    return value


def setting(help: str, kind: Kind) -> Meta:
    """Declare one setting: loading, its messages and the documented file follow from this."""
    return Meta(description=help, extra={"kind": kind})


def _of_table(help: str, example: str) -> Meta:
    return Meta(description=help, extra={"example": example})


class Credentials(Struct, frozen=True, kw_only=True):
    """Credentials for the servers whose URLs are configured beside them, and for no others."""

    # fmt: off
    token_file: Annotated[str | None, _of_table(
        "File with the bearer token, read again when it is refused.",
        '"/run/secrets/token"')] = None
    token_command: Annotated[tuple[str, ...], _of_table(
        "Command that prints the bearer token, run again when it is refused.",
        '["gcloud", "auth", "print-access-token"]')] = ()
    user: Annotated[str | None, _of_table(
        "User, with password_file.",
        '"viewer"')] = None
    password_file: Annotated[str | None, _of_table(
        "File with the password of the user.",
        '"/run/secrets/viewer"')] = None
    headers: Annotated[dict[str, str], _of_table(
        "Headers of each request, such as a tenant.",
        '{ X-Scope-OrgID = "lab" }')] = msgspec.field(default_factory=dict)
    certificate_file: Annotated[str | None, _of_table(
        "Certificate of this client.",
        '"~/.ssl/client.pem"')] = None
    key_file: Annotated[str | None, _of_table(
        "Its private key, if it is not in the same file.",
        '"~/.ssl/client.key"')] = None
    plain_http: Annotated[bool, _of_table(
        "Send credentials unencrypted to other machines, too, where a URL has http.",
        "true")] = False
    ca_file: Annotated[str | None, _of_table(
        "Certificates of the authorities to trust, in place of the system's.",
        '"/etc/ssl/lab-ca.pem"')] = None
    # fmt: on


# Without `kw_only`, fields precede inherited ones, in the documented file too.
class FleetSettings(Credentials, frozen=True):
    """How many hosts are reached."""

    # fmt: off
    groups: Annotated[dict[str, str], _of_table(
        "Hosts by a name of yours, for --host @lab.",
        '{ lab = "gpu[01-12],lab7" }')] = msgspec.field(default_factory=dict)
    remote: Annotated[str | None, _of_table(
        "gpudash on the hosts, where their PATH does not have it.",
        '"/opt/gpudash/bin/gpudash"')] = None
    prices: Annotated[dict[str, Price], _of_table(
        "Price of an hour of a GPU by part of its model, in a currency of yours.",
        "{ H100 = 2.5 }")] = msgspec.field(default_factory=dict)
    host_label: Annotated[str | None, _of_table(
        "Label that names a host in Prometheus, where the one found is not right.",
        '"kubernetes_node"')] = None
    metrics: Annotated[dict[str, MetricName], _of_table(
        "Names in Prometheus of metrics of exporters, where recording rules have named them.",
        '{ DCGM_FI_DEV_GPU_UTIL = "gpu:utilization:max" }')] = msgspec.field(default_factory=dict)
    look_back_days: Annotated[float, _of_table(
        "Days for which GPUs and hosts are missed that Prometheus has no more: 7 at most.",
        "7"), Meta(ge=0.1, le=7)] = 1.0
    prometheus: Annotated[tuple[str, ...], _of_table(
        "URLs for --prometheus without one. The credentials below go to their servers alone.",
        '["https://prometheus.example:9090"]')] = ()
    acknowledged: Annotated[str | None, _of_table(
        "File of acknowledgements that several people share, in place of one of your own.",
        '"/srv/gpudash/acknowledged.jsonl"')] = None
    # fmt: on


class ExporterSettings(Credentials, frozen=True):
    """How exporters are reached."""

    # fmt: off
    urls: Annotated[tuple[str, ...], _of_table(
        "URLs for --scrape without any. The credentials below go to their servers alone.",
        '["https://gpu01:9400", "https://gpu02:9400"]')] = ()
    # fmt: on


class Settings(Struct, frozen=True, kw_only=True):
    """The settings of a user, with the defaults."""

    # fmt: off
    interval: Annotated[float, setting(
        "Seconds between two samples.",
        Number(0.1, 3600, "seconds"))] = 1.0
    theme: Annotated[str, setting(
        "Colours of the screen.",
        OneOf("themes"))] = "dark"
    ascii: Annotated[bool, setting(
        "Draw with ASCII only, even if the terminal can show more.",
        Flag())] = False
    sort: Annotated[str, setting(
        "Column by which processes are sorted: numbers descending, words ascending; or tree.",
        OneOf("orders"))] = "gpu_memory"
    reverse: Annotated[bool, setting(
        "Reverse the sort order.",
        Flag())] = False
    per_gpu: Annotated[bool, setting(
        "List a process once for each of its GPUs.",
        Flag())] = False
    columns: Annotated[tuple[str, ...], setting(
        "Columns of the processes, in this order; if empty, all that fit.",
        SomeOf("columns"))] = ()
    hidden_panels: Annotated[tuple[str, ...], setting(
        "Parts of the screen that are not shown.",
        SomeOf("panels"))] = ()
    bell: Annotated[bool, setting(
        "Ring the terminal, with a notice (OSC 9), when a critical finding appears.",
        Flag())] = False
    read_only: Annotated[bool, setting(
        "Disable signals to processes; in /etc/gpudash/config.toml for all users.",
        Flag())] = False
    keys: Annotated[Mapping[str, tuple[str, ...]], setting(
        "Keys of an action in place of its default ones; an empty list removes them.",
        Keys("actions"))] = msgspec.field(default_factory=dict)
    fleet: Annotated[FleetSettings, setting(
        "Many hosts in one screen: --host and --prometheus.",
        Table(FleetSettings))] = FleetSettings()
    exporters: Annotated[ExporterSettings, setting(
        "Exporters that are read without a Prometheus: --scrape.",
        Table(ExporterSettings))] = ExporterSettings()
    # fmt: on


class Declared(Struct, frozen=True):
    """A setting as it was declared."""

    name: str
    help: str
    kind: Kind
    default: object


@cache
def declared() -> Mapping[str, Declared]:
    """Return every setting by its name, in the order of the documented file."""
    defaults, found = Settings(), {}
    for field in msgspec.structs.fields(Settings):
        meta = get_args(field.type)[1]
        default = getattr(defaults, field.name)
        found[field.name] = Declared(field.name, meta.description, meta.extra["kind"], default)
    return found
