"""The document of many hosts: what a script may rely on."""

import json
from datetime import datetime, timezone
from typing import Any

import msgspec
import pytest

from gpudash.model import wire
from gpudash.model.errors import WireError
from gpudash.model.fleet import (
    FleetDevice,
    FleetHost,
    FleetJob,
    FleetSnapshot,
    FleetSource,
    FleetUser,
    decode,
    decode_request,
    encode,
    json_schema,
)
from gpudash.model.text import clean

PARTS: dict[str, Any] = {
    "hosts": FleetHost(name=clean("gpu01"), devices=(FleetDevice(index=0),)),
    "users": FleetUser(name=clean("alice")),
    "jobs": FleetJob(id=clean("1")),
    "sources": FleetSource(kind="ssh", name=clean("gpu01")),
}


def test_every_field_is_there_and_null_if_it_is_not_known() -> None:
    at = datetime(2026, 11, 23, tzinfo=timezone.utc)
    snapshot = FleetSnapshot(taken_at=at, **{name: (part,) for name, part in PARTS.items()})
    document = json.loads(encode(snapshot))
    for name, part in PARTS.items():
        assert list(document[name][0]) == [each.name for each in msgspec.structs.fields(part)]
    (device,) = document["hosts"][0]["devices"]
    assert list(device) == [each.name for each in msgspec.structs.fields(FleetDevice)]
    assert (document["hosts"][0]["state"], device["state"]) == ("ok", "ok")
    assert device["memory_used_bytes"] is None
    assert decode(encode(snapshot)) == snapshot


def test_schema_has_the_head_of_that_of_one_host_and_a_title_of_its_own() -> None:
    one, many = wire.json_schema(), json_schema()
    assert list(many) == list(one)
    assert many["$schema"] == one["$schema"]
    assert (one["title"], many["title"]) == ("gpudash snapshot", "gpudash snapshot of many hosts")
    assert many["$ref"] == "#/$defs/FleetSnapshot"


@pytest.mark.parametrize(("one", "many"), [("Device", "FleetDevice"), ("Host", "FleetHost")])
def test_a_field_is_described_as_in_the_document_of_one_host(one: str, many: str) -> None:
    alone = wire.json_schema()["$defs"][one]["properties"]
    among = json_schema()["$defs"][many]["properties"]
    same = set(alone) & set(among)
    assert len(same) >= {"Device": 15, "Host": 4}[one]
    for name in same:
        assert among[name]["description"] == alone[name]["description"]
        assert among[name].get("x-unit") == alone[name].get("x-unit")


@pytest.mark.parametrize("line", [b'{"charts":[{"metric":"\xff"}]}', b"{", b"[]", b'{"at":1}'])
def test_what_is_no_request_is_refused(line: bytes) -> None:
    with pytest.raises(WireError, match="not a request"):
        decode_request(line)
