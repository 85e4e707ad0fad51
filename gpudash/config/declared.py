"""What a person can set: each setting once, with its help sentence, its kind and its default."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, NamedTuple, get_args

import msgspec
from msgspec import Meta, Struct

from gpudash.config.settings import Flag, Keys, Kind, Number, OneOf, SomeOf


def setting(help: str, kind: Kind) -> Meta:
    """Declare one setting: loading, its messages and the documented file follow from this."""
    return Meta(description=help, extra={"kind": kind})


class Settings(Struct, frozen=True, kw_only=True):
    """How a person wants gpudash; the defaults are those of somebody who never said."""

    # fmt: off
    interval: Annotated[float, setting(
        "Seconds between two samples.",
        Number(0.1, 3600, "seconds"))] = 1.0
    theme: Annotated[str, setting(
        "The colours.",
        OneOf("themes"))] = "dark"
    ascii: Annotated[bool, setting(
        "Draw with ASCII only, also where the terminal could show more.",
        Flag())] = False
    sort: Annotated[str, setting(
        "The column that processes are sorted by: numbers from the largest, words from A.",
        OneOf("columns"))] = "gpu_memory"
    reverse: Annotated[bool, setting(
        "Turn that order around.",
        Flag())] = False
    columns: Annotated[tuple[str, ...], setting(
        "The columns of the processes, in this order; with none named, all that the width holds.",
        SomeOf("columns"))] = ()
    hidden_panels: Annotated[tuple[str, ...], setting(
        "Parts of the screen that are not shown.",
        SomeOf("panels"))] = ()
    read_only: Annotated[bool, setting(
        "Show processes but offer no way to signal them.",
        Flag())] = False
    keys: Annotated[Mapping[str, tuple[str, ...]], setting(
        "The keys of an action instead of its own; an empty list leaves it without any.",
        Keys("actions"))] = msgspec.field(default_factory=dict)
    # fmt: on


class Declared(NamedTuple):
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
