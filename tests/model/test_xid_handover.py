import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpudash.collect.nvml import gpu as resets
from gpudash.model import xid_handover
from gpudash.model.fault import XidEvent
from tests.factories import make_device, make_snapshot
from tests.strategies import snapshots

EVENT = XidEvent(code=48, seen_at=1_800_000_000.0, count=2, gpu_instance_id=1)


def test_what_was_reported_is_found_by_the_next_one() -> None:
    broken = make_device(
        index=1,
        xid_events=(EVENT,),
        total_energy_mj=77,
        pcie_replay_count=5,
        remapped_rows_pending=True,
        retired_pages_pending=False,
        recovery_action="gpu-reset",
    )
    left = xid_handover.encode_handover(make_snapshot(devices=(make_device(xid_events=()), broken)))
    (found,) = xid_handover.decode_handover(left).values()
    assert found.uuid == broken.uuid
    assert found.xid_events == (EVENT,)
    values = {name: getattr(found, name) for name in found.__struct_fields__}
    before = {name: getattr(broken, name) for name in broken.__struct_fields__}
    assert not resets.was_reset(before, values)
    begun = {"total_energy_mj": 3, "pcie_replay_count": 0, "remapped_rows_pending": False}
    for name, value in {**begun, "recovery_action": "none"}.items():
        assert resets.was_reset(values, {**values, name: value}), name


def test_nothing_is_left_where_nothing_was_reported() -> None:
    assert xid_handover.encode_handover(None) == {}
    assert xid_handover.encode_handover(make_snapshot()) == {}
    assert xid_handover.decode_handover({}) == {}


def test_what_a_collector_did_not_come_to_tell_is_left_to_the_one_after_it() -> None:
    silent, mended = make_device(index=0, xid_events=(EVENT,)), make_device(index=1)
    left = xid_handover.encode_handover(
        make_snapshot(devices=(silent, replace(mended, xid_events=(EVENT, EVENT))))
    )
    untold = replace(silent, state="not-answering", xid_events=None)
    now = make_snapshot(devices=(untold, replace(mended, xid_events=(EVENT,))))
    for again in (None, make_snapshot(devices=()), now):
        left = xid_handover.encode_handover(again, left)
        assert xid_handover.decode_handover(left)[silent.uuid or ""].xid_events == (EVENT,)
    assert xid_handover.decode_handover(left)[mended.uuid or ""].xid_events == (EVENT,)
    assert len(xid_handover.decode_handover(left)) == 2


def test_a_host_of_many_gpus_that_all_report_fits_into_the_environment() -> None:
    events = tuple(XidEvent(code=code, seen_at=1_800_000_000.123) for code in range(1000, 1016))
    devices = tuple(make_device(index=index, xid_events=events) for index in range(64))
    (text,) = xid_handover.encode_handover(make_snapshot(devices=devices)).values()
    assert len(text) < 128 * 1024
    found = xid_handover.decode_handover({"GPUDASH_XID_HANDOVER": text})
    assert len(found) == 64
    assert all(device.xid_events == events[-8:] for device in found.values())


@pytest.mark.parametrize("text", ["", "x", "{}", "[1]", '[{"index":0}]', "[[" * 100_000, "\udcff"])
def test_a_malformed_handover_is_ignored(text: str) -> None:
    assert xid_handover.decode_handover({"GPUDASH_XID_HANDOVER": text}) == {}


@given(st.one_of(st.none(), snapshots()))
def test_any_snapshot_leaves_what_can_be_found(snapshot) -> None:  # type: ignore[no-untyped-def]
    left = xid_handover.encode_handover(snapshot)
    assert all(text.isascii() for text in left.values())
    expected = {d.uuid for d in snapshot.devices if d.uuid and d.xid_events} if snapshot else set()
    assert xid_handover.decode_handover(left).keys() == (expected if left else set())
