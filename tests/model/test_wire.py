import json
import typing
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gpudash.model import device, fault, process, records, snapshot, wire
from gpudash.model.errors import WireError
from gpudash.model.fields import declared_fields
from gpudash.model.fleet import FleetSnapshot
from gpudash.model.process import Holder, Process
from gpudash.model.snapshot import EMPTY, Finding, LeftOut, Snapshot
from gpudash.model.text import LIMIT, SafeText, clean
from gpudash.model.units import Unit
from gpudash.model.wire import MAX_BYTES, decode, decoder_of, encode, json_schema, pretty
from gpudash.output import table
from tests.factories import make_device, make_process, make_process_device, make_snapshot
from tests.strategies import snapshots

LONE_SURROGATE = rb'{"taken_at":"2026-01-02T03:04:05Z","host":{"hostname":"\ud800"}}'
STRUCTS = [
    kind
    for module in (device, fault, process, records, snapshot)
    for kind in vars(module).values()
    if isinstance(kind, type)
    and issubclass(kind, msgspec.Struct)
    and kind.__module__ == module.__name__
    and (kind is device.Device or not kind.__subclasses__())
    # No document has what only `-q` prints.
    and kind is not records.SampleBuffer
]


def document(snapshot: Snapshot) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(encode(snapshot))
    return parsed


@given(snapshots())
def test_decode_gives_back_what_was_encoded(snapshot: Snapshot) -> None:
    assert decode(encode(snapshot)) == snapshot


@pytest.mark.parametrize("snapshot", [EMPTY, make_snapshot(), make_snapshot(0, topology=None)])
def test_document_is_one_line_of_plain_json(snapshot: Snapshot) -> None:
    line = encode(snapshot)
    assert b"\n" not in line
    assert decode(line) == snapshot
    assert json.loads(pretty(line)) == json.loads(line)


@given(snapshots())
def test_compact_document_is_shorter_and_leaves_the_values_of_devices(snapshot: Snapshot) -> None:
    line = wire.encode_compact(snapshot)
    found = decode(line)
    assert len(line) <= len(encode(snapshot)) + 200
    assert found.topology is None
    assert found.host == snapshot.host
    without = dict.fromkeys(wire.NOT_COMPACT)
    assert found.devices == tuple(replace(each, **without) for each in snapshot.devices)
    assert [each.pid for each in found.processes] == [each.pid for each in snapshot.processes]


def test_compact_document_has_short_command_lines_and_counts_what_it_leaves_out() -> None:
    long = tuple(SafeText("x" * 90) for _ in range(9))
    processes = tuple(make_process(pid=pid, command_line=long) for pid in range(2000))
    found = decode(wire.encode_compact(make_snapshot(processes=processes)))
    assert found.left_out.processes == 2000 - len(found.processes) > 0
    limit = wire.COMPACT_COMMAND_BYTES
    assert all(len("".join(each.command_line or ())) <= limit for each in found.processes)


def test_compact_document_counts_also_what_was_left_out_before() -> None:
    before = LeftOut(command_lines=7, processes=100)
    crowded = make_snapshot(
        processes=tuple(make_process(pid=pid) for pid in range(1, 1101)), left_out=before
    )
    found = decode(wire.encode_compact(crowded))
    assert found.left_out == LeftOut(command_lines=7, processes=176)
    small = decode(wire.encode_compact(make_snapshot(left_out=before)))
    assert small.left_out == before
    assert decode(wire.encode_compact(make_snapshot())).left_out is None


def test_absent_values_are_written_as_null() -> None:
    device = document(make_snapshot(1, devices=(make_device(temperature_celsius=None),)))["devices"]
    assert device[0]["temperature_celsius"] is None
    assert device[0]["ecc_uncorrected_volatile_count"] == 0


def test_time_is_rfc3339_in_utc() -> None:
    assert document(make_snapshot())["taken_at"] == "2026-01-02T03:04:05.678000Z"


def test_unknown_fields_of_a_newer_schema_are_ignored() -> None:
    newer = document(make_snapshot())
    newer["schema"] = 2
    for place in (newer, newer["host"], newer["devices"][0], newer["processes"][0]):
        place["field_of_tomorrow"] = {"nested": [1, None]}
    assert decode(json.dumps(newer).encode()) == make_snapshot(schema=2)


@pytest.mark.parametrize(
    ("path", "keys", "value"),
    [
        (r"\$\.devices\[.+\]\.temperature_celsius", ("devices", 1, "temperature_celsius"), "62"),
        (r"\$\.devices\[.+\]\.state", ("devices", 0, "state"), "on\n\x1b[31mfire"),
        (r"\$\.host\.hostname", ("host", "hostname"), 7),
        (
            r"\$\.processes\[.+\]\.devices\[.+\]\.index",
            ("processes", 0, "devices", 0, "index"),
            None,
        ),
        (r"\$\.taken_at", ("taken_at",), "yesterday"),
        (r"\$\.devices", ("devices",), [{"index": 0}] * 20_000),
        (r"\$\.errors", ("errors",), [{"source": "nvml", "message": ""}] * 20_000),
        (r"\$\.leases", ("leases",), [{"uuid": "", "index": 0}] * 20_000),
    ],
)
def test_wrong_value_is_one_line_that_names_its_path(
    path: str, keys: tuple[Any, ...], value: object
) -> None:
    wrong: Any = document(make_snapshot(2))
    place = wrong
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    with pytest.raises(WireError, match=path) as caught:
        decode(json.dumps(wrong).encode())
    assert str(caught.value).isprintable()


def test_missing_field_is_named() -> None:
    with pytest.raises(WireError, match="taken_at"):
        decode(b'{"host":{"hostname":"a"}}')


def test_line_cut_anywhere_is_an_error() -> None:
    line = encode(make_snapshot(1, processes=(make_process(command_line=("naïve", "🦆")),)))
    for length in range(len(line)):
        with pytest.raises(WireError):
            decode(line[:length])


@pytest.mark.parametrize(
    "line", [b"", b"null", b"[]", b"\xff\xfe", b"{}{}", LONE_SURROGATE, b"[" * 100_000]
)
def test_anything_else_is_an_error(line: bytes) -> None:
    with pytest.raises(WireError):
        decode(line)


def test_schema_describes_every_field_as_it_is_declared() -> None:
    definitions = json_schema()["$defs"]
    for kind in STRUCTS:
        described = definitions[kind.__name__]["properties"]
        hints = typing.get_type_hints(kind, include_extras=True)
        assert list(described) == [field.encode_name for field in msgspec.structs.fields(kind)]
        for name, entry in described.items():
            declared = next(meta for meta in hints[name].__metadata__ if meta.extra)
            unit, nvml = declared.extra["unit"], declared.extra["nvml"]
            assert entry["description"].endswith("."), (kind, name)
            assert entry.get("x-unit") == (None if unit is Unit.NONE else unit.suffix)
            assert entry.get("x-nvml") == nvml


def test_building_a_decoder_changes_nothing_of_what_is_declared() -> None:
    schema, declared = json_schema(), declared_fields(Process)
    for document in (Snapshot, FleetSnapshot):
        decoder_of(document)
        assert declared_fields(Process) == declared
    assert json_schema() == schema


def test_everything_measured_in_hertz_watts_or_degrees_names_its_nvml_call() -> None:
    for name, entry in json_schema()["$defs"]["Device"]["properties"].items():
        if entry.get("x-unit") in {"mW", "MHz", "mJ", "°C"}:
            assert entry.get("x-nvml"), name


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value of a document that holds no others."""
    if isinstance(value, (dict, list)):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(each, (*path, key))
    else:
        yield path


PLACES = list(places(document(make_snapshot(2))))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=()), max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(PLACES), JSON, min_size=1, max_size=6))
def test_hostile_document_is_an_error_or_a_snapshot_that_can_be_shown(
    values: dict[tuple[Any, ...], Any],
) -> None:
    hostile = document(make_snapshot(2))
    for path, value in values.items():
        place = hostile
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
    try:
        snapshot = decode(json.dumps(hostile).replace("Infinity", "1e999").encode())
    except WireError:
        return
    assert decode(encode(snapshot)) == snapshot
    shown = table.render(snapshot, width=100, color=False, ascii=False)
    assert all(map(str.isprintable, shown.splitlines()))


@given(st.binary(max_size=200))
def test_any_bytes_are_an_error(line: bytes) -> None:
    with pytest.raises(WireError):
        decode(line)


HOSTILE = "\x1b]52;c;aGk=\x07\x1b[2J\u202e\n\x9b"


@pytest.mark.parametrize(
    "hostile",
    [HOSTILE, "\u202e", "\x7f", "\\\x1b", '"\x1b"', "\\n\n", "e" + "\u0301" * 9, "❤\ufe0f"],
)
def test_foreign_text_of_a_document_is_made_harmless(hostile: str) -> None:
    process = make_process(username=hostile, command_line=(hostile, "python"))
    line = encode(make_snapshot(processes=(process,)))
    (decoded,) = decode(line).processes
    assert decoded.username == clean(hostile)
    assert decoded.command_line == (clean(hostile), "python")


@given(st.text(max_size=30))
def test_no_text_survives_unclean(text: str) -> None:
    line = encode(make_snapshot(processes=(make_process(username=text),)))
    assert decode(line).processes[0].username == clean(text)


@pytest.mark.parametrize("char", ["x", "é", "\x1b"])
def test_text_of_a_document_has_an_end(char: str) -> None:
    line = encode(make_snapshot(processes=(make_process(username=char * 1_000_000),)))
    snapshot = decode(line)
    assert len(snapshot.processes[0].username or "") < 500_000
    assert decode(encode(snapshot)) == snapshot


def test_longest_clean_text_stays_whole() -> None:
    longest = clean("\U000e0041" * LIMIT * 2)
    snapshot = make_snapshot(processes=(make_process(username=longest),))
    assert decode(encode(snapshot)) == snapshot


LONG = clean("x" * 4000)


def crowd(count: int, **overrides: Any) -> tuple[Process, ...]:
    """Processes of which each holds more GPU memory than the one before."""
    return tuple(
        make_process(
            pid=pid,
            devices=(make_process_device(used_gpu_memory_bytes=pid),),
            **{"command_line": ("python", LONG, LONG), **overrides},
        )
        for pid in range(1, count + 1)
    )


def test_a_document_that_is_too_large_loses_arguments_of_small_processes_first() -> None:
    device = make_device(holder_pids=(9,))
    holder = Holder(pid=9, command_line=(LONG,))
    whole = make_snapshot(1, processes=crowd(1500), devices=(device,), holders=(holder,))
    line = encode(whole)
    assert MAX_BYTES - 10_000 < len(line) <= MAX_BYTES
    decoded = decode(line)
    assert (decoded.devices, decoded.holders) == (whole.devices, whole.holders)
    count = decoded.left_out.command_lines
    assert decoded.left_out == LeftOut(command_lines=count)
    assert decoded.processes[count:] == whole.processes[count:]
    assert {each.command_line for each in decoded.processes[:count]} == {("python", "…")}
    assert [each.key for each in decoded.processes] == [each.key for each in whole.processes]
    (fault,) = decoded.errors
    assert (fault.source, str(count) in fault.message) == ("document", True)


def test_holders_of_all_devices_take_no_more_than_those_of_one() -> None:
    holders = tuple(Holder(pid=pid, command_line=(clean("x" * 250),)) for pid in range(64))
    held = make_device(holder_pids=tuple(holder.pid for holder in holders))
    one, all_eight = (
        len(
            encode(
                make_snapshot(
                    1, devices=(held,) * count + (make_device(),) * (8 - count), holders=holders
                )
            )
        )
        for count in (1, 8)
    )
    assert all_eight < 1.1 * one


def test_a_holder_that_is_not_described_has_only_its_pid() -> None:
    device = make_device(holder_pids=(8, 9))
    known = Holder(pid=9, command_line=(LONG,))
    snapshot = make_snapshot(1, devices=(device,), holders=(known,))
    assert snapshot.holders_of(device) == (Holder(pid=8), known)


def test_holders_then_findings_then_small_processes_follow() -> None:
    holders = tuple(Holder(pid=pid, command_line=(LONG,)) for pid in range(64))
    devices = (make_device(holder_pids=tuple(range(64))),)
    findings = (
        Finding(rule="a", level="critical", sentence="a"),
        Finding(rule="b", level="warn", sentence="b"),
    )
    processes = crowd(1, command_line=("a",), name=LONG) * 2500
    decoded = decode(
        encode(
            make_snapshot(
                1, processes=processes, devices=devices, holders=holders, findings=findings
            )
        )
    )
    assert decoded.left_out.holders == 64
    assert (decoded.devices, decoded.holders) == (devices, ())
    assert "; left out: 64 holders, 1 finding, " in decoded.errors[-1].message
    assert decoded.findings == findings[:1]
    assert decoded.left_out.findings == 1
    assert len(decoded.processes) + decoded.left_out.processes == 2500
    assert decoded.left_out.processes > 0
    assert len(encode(decoded)) <= MAX_BYTES


def test_what_was_left_out_before_is_counted_with_what_is_left_out_now() -> None:
    first = decode(encode(make_snapshot(1, processes=crowd(1500))))
    again = decode(encode(replace(first, processes=(*first.processes, *crowd(1500)))))
    assert again.left_out.command_lines > first.left_out.command_lines
    assert len([fault for fault in again.errors if fault.source == "document"]) == 1
