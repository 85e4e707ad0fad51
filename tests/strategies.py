"""Hypothesis strategies made from the declared types, so that a new field is covered at once."""

import fcntl
import pickle
import types
import typing
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudash.model.snapshot import Nic, Snapshot, Topology
from gpudash.model.text import SafeText, clean

shared_folder: list[Path] = []
"""Where the workers of this run keep what is drawn once for all; `tests/conftest.py` names it."""
_SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.integers(-(2**63), 2**64 - 1),
    float: st.floats(allow_nan=False, allow_infinity=False),
    str: st.text(max_size=20).map(clean),
    SafeText: st.text(max_size=20).map(clean),
    type(None): st.none(),
    datetime: st.datetimes(
        datetime(1970, 1, 1), datetime(9998, 12, 31), timezones=st.just(timezone.utc)
    ),
}


def snapshots() -> st.SearchStrategy[Snapshot]:
    """Any snapshot that the types allow, plausible or not, its texts clean as all sources do.

    Each takes thousands of draws: unless many examples are asked for, all tests of all workers
    share the same few.
    """
    if settings.get_profile("brief").max_examples < settings().max_examples:
        return values(Snapshot)
    return st.deferred(lambda: st.sampled_from(_drawn()))


@cache
def _drawn() -> list[Snapshot]:
    drawn: list[Snapshot] = []

    @given(values(Snapshot))
    def draw(snapshot: Snapshot) -> None:
        drawn.append(snapshot)

    with (shared_folder[0] / "snapshots").open("a+b") as kept:
        fcntl.flock(kept, fcntl.LOCK_EX)
        kept.seek(0)
        if known := kept.read():
            drawn = pickle.loads(known)
        else:
            draw()
            pickle.dump(drawn, kept)
    return drawn


@cache
def values(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of a type that a snapshot is made of.

    Raises TypeError for a type that no field had so far.
    """
    if kind in _SCALARS:
        return _SCALARS[kind]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        numbers = (each for each in arguments[1:] if getattr(each, "ge", None) is not None)
        ranged = next(numbers, None)
        return values(arguments[0]) if ranged is None else _numbers(arguments[0], ranged)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, types.UnionType):
        return st.one_of(*(values(argument) for argument in arguments))
    if origin is tuple:
        return _tuples(arguments)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _structs(kind)
    raise TypeError(f"no strategy for {kind}")


def _numbers(kind: Any, ranged: msgspec.Meta) -> st.SearchStrategy[Any]:
    """Any number that its declared range allows."""
    low: Any = ranged.ge
    high: Any = ranged.le
    if kind is int:
        return st.integers(low, high)
    return st.floats(low, high, allow_nan=False)


def _tuples(arguments: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    if arguments[1:] == (...,):
        return st.lists(values(arguments[0]), max_size=3).map(tuple)
    return st.tuples(*(values(argument) for argument in arguments))


def _structs(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    if kind is Topology:
        return st.integers(0, 3).flatmap(_topologies)
    fields = {field.name: values(field.type) for field in msgspec.structs.fields(kind)}
    return st.fixed_dictionaries(fields).map(lambda given: kind(**given))


def _topologies(count: int) -> st.SearchStrategy[Topology]:
    """Any links between so many GPUs: each matrix is square, each list as long."""
    fields = {}
    for field in msgspec.structs.fields(Topology):
        listed = typing.get_args(field.type)[0]
        is_optional = typing.get_origin(listed) is types.UnionType
        if is_optional:
            listed = typing.get_args(listed)[0]
        item = typing.get_args(listed)[0]
        if typing.get_origin(item) is tuple:
            row = values(typing.get_args(item)[0])
            item_values = st.lists(row, min_size=count, max_size=count).map(tuple)
        else:
            item_values = values(item)
        listing = st.lists(item_values, min_size=count, max_size=count).map(tuple)
        fields[field.name] = st.none() | listing if is_optional else listing
    links = st.lists(values(str | None), min_size=count, max_size=count).map(tuple)
    card = st.builds(Nic, name=values(SafeText), gpu_links=links, nic_links=links)
    fields["nics"] = st.lists(card, min_size=count, max_size=count).map(tuple)
    return st.builds(Topology, **fields)
