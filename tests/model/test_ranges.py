"""Every number of a document has a range, and one outside of it is refused by its path."""

import types
import typing
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
import pytest

from gpudash.model.errors import WireError
from gpudash.model.snapshot import Snapshot
from gpudash.model.wire import decode

Keys = tuple[str | int, ...]


class Leaf(typing.NamedTuple):
    """A number of the document, and its range."""

    keys: Keys
    low: float
    high: float


def example(kind: Any, keys: Keys, leaves: list[Leaf]) -> Any:
    """A document with all fields, each list with one item; its numbers are added to `leaves`."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        ranged = next((each for each in arguments[1:] if each.ge is not None), None)
        if ranged is None:
            return example(arguments[0], keys, leaves)
        assert ranged.le is not None, keys
        leaves.append(Leaf(keys, ranged.ge, ranged.le))
        return ranged.ge
    assert kind not in (int, float), f"{keys} declares no range"
    if origin in (typing.Union, types.UnionType):
        numbers = [each for each in arguments if typing.get_origin(each) is Annotated]
        return example((numbers or list(arguments))[0], keys, leaves)
    if origin is tuple:
        items = arguments[:1] if arguments[1:] == (...,) else arguments
        return [example(item, (*keys, number), leaves) for number, item in enumerate(items)]
    if origin is Literal:
        return arguments[0]
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        fields = msgspec.structs.fields(kind)
        return {each.name: example(each.type, (*keys, each.name), leaves) for each in fields}
    return {datetime: "2026-01-02T03:04:05Z", bool: True}.get(kind, "a")


LEAVES: list[Leaf] = []
DOCUMENT = example(Snapshot, (), LEAVES)


def altered(value: Any, keys: Keys, new: Any) -> Any:
    if not keys:
        return new
    key = keys[0]
    if isinstance(value, list):
        return [altered(each, keys[1:], new) if n == key else each for n, each in enumerate(value)]
    return {**value, key: altered(value[key], keys[1:], new)}


def outside(leaf: Leaf) -> Iterator[int]:
    yield int(leaf.low) - 1
    yield max(int(leaf.high) + 1, int(leaf.high * 2))
    yield -(10**400)
    yield 10**400


def test_each_end_of_a_range_is_read() -> None:
    assert len(LEAVES) > 130
    for leaf in LEAVES:
        for value in (leaf.low, leaf.high):
            decode(msgspec.json.encode(altered(DOCUMENT, leaf.keys, value)))


def test_what_is_outside_of_a_range_is_refused_by_its_path() -> None:
    whole = msgspec.json.encode(DOCUMENT)
    decode(whole)
    for leaf in LEAVES:
        path = "$" + "".join(f"[{k}]" if isinstance(k, int) else f".{k}" for k in leaf.keys)
        for value in outside(leaf):
            line = msgspec.json.encode(altered(DOCUMENT, leaf.keys, 0.5)).replace(
                b"0.5", b"%d" % value, 1
            )
            with pytest.raises(WireError) as caught:
                decode(line)
            assert f"at `{path}`" in str(caught.value).replace("[...]", "[0]"), leaf
            assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "taken_at",
    [
        "0001-01-01T00:00:00+14:00",
        "0001-01-01T00:00:00Z",
        "1969-12-31T23:59:59Z",
        "9999-12-31T23:59:59-14:00",
        "9999-01-01T00:00:00Z",
    ],
)
def test_an_instant_at_the_edge_of_the_calendar_is_refused(taken_at: str) -> None:
    with pytest.raises(WireError, match=r"at `\$\.taken_at`"):
        decode(msgspec.json.encode({**DOCUMENT, "taken_at": taken_at}))


@pytest.mark.parametrize("name", ["indices", "links", "p2p_read", "cpu_affinity"])
def test_a_topology_of_uneven_size_is_refused(name: str) -> None:
    uneven = altered(DOCUMENT, ("topology", name), [])
    with pytest.raises(WireError, match=rf"at `\$\.topology\.{name}`"):
        decode(msgspec.json.encode(uneven))
