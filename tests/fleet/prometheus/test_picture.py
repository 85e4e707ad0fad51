"""What is remembered of series from one answer to the next."""

from collections.abc import Iterable
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw, json

from gpudash.fleet.prometheus.dialects import FIELDS, dialects
from gpudash.fleet.prometheus.known import KnownDevice, Row
from gpudash.fleet.prometheus.picture import Picture
from gpudash.fleet.prometheus.questions import questions
from gpudash.fleet.reduce import Reducer
from gpudash.model.fleet import FleetDevice, FleetHost, FleetSnapshot

UTIL, POWER, XID = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_XID_ERRORS"
T = 1_700_000_000.0
DAY = 86_400.0


def row(name: str, host: str, gpu: object, value: object, **labels: str) -> Row:
    """Return a series of DCGM's exporter."""
    metric = {"__name__": name, "Hostname": host, "gpu": str(gpu), **labels}
    return Row(Raw(json.encode(metric)), (T, str(value)))


def rows(name: str, values: dict[str, list[object]]) -> list[Row]:
    """Return a series a GPU."""
    return [row(name, host, gpu, v) for host, some in values.items() for gpu, v in enumerate(some)]


def picture(values: dict[str, list[object]], at: float = T) -> Picture:
    """Return a picture of hosts by the utilization of their GPUs."""
    new = Picture()
    new.inventory.set_names([UTIL, POWER, XID])
    new.inventory.learn(rows(UTIL, values))
    new.take_main(rows(UTIL, values), at, is_partial=False)
    return new


def host(picture: Picture, name: str = "a") -> FleetHost:
    return next(each for each in picture.hosts(picture.now) if each.name == name)


def states(picture: Picture, name: str = "a") -> list[str]:
    found = host(picture, name)
    return [found.state, *(each.state for each in found.devices)]


def first(picture: Picture) -> FleetDevice:
    return host(picture).devices[0]


@pytest.mark.parametrize("field", FIELDS)
def test_a_value_goes_into_the_field_that_it_is_asked_for(field: str) -> None:
    seen = Picture()
    name = f"gpudash_{field}"
    seen.inventory.set_names([name])
    seen.inventory.learn([row(name, "a", 0, 6.9)])
    seen.take_main([row(name, "a", 0, 6.9)], T, is_partial=False)
    seen.take_field(field, [row(name, "a", 0, 6.9)], T)
    known = {each: getattr(first(seen), each) for each in FIELDS}
    assert {each: value for each, value in known.items() if value is not None} in (
        {field: 7},
        {field: 6.9},
    )
    assert json.decode(json.encode(host(seen)), type=FleetHost) == host(seen)


def test_what_vanishes_is_missed_for_a_day() -> None:
    seen = picture({"a": [1, 1], "b": [1]})
    for at in (T + 60, T + DAY - 1):
        seen.take_main(rows(UTIL, {"a": [1]}), at, is_partial=False)
        assert states(seen) == ["ok", "ok", "lost"]
        assert states(seen, "b")[0] == "down"
        assert host(seen).expected_devices == 2
        assert host(seen).devices[1].age_seconds == host(seen, "b").age_seconds == at - T
    seen.take_main(rows(UTIL, {"a": [1]}), T + DAY + 1, is_partial=False)
    assert states(seen) == ["ok", "ok"]
    assert [each.name for each in seen.hosts(seen.now)] == ["a"]


def test_what_vanishes_keeps_the_users_and_the_job_that_it_had() -> None:
    seen = picture({"a": [1, 1, 1], "b": [1]})
    had = [row(UTIL, *place, 1, hpc_job="7") for place in (("a", 1), ("b", 0))]
    free = row(UTIL, "a", 0, 1)
    owned = row(UTIL, "a", 2, 1, username="eve")
    seen.inventory.learn([free, row(UTIL, "a", 2, 1), *had])
    seen.take_users([owned], T)
    for again in (T + 60, T + 120):
        seen.inventory.learn([free])
        seen.take_main([free], again, is_partial=False)
        seen.take_users([], again)
        found = [each for name in "ab" for each in host(seen, name).devices]
        assert [each.job for each in found] == [None, "7", None, "7"]
        assert [each.users for each in found] == [(), (), ("eve",), ()]
        assert [(each.id, each.hosts, each.devices) for each in seen.jobs()] == [
            ("7", ("a", "b"), 2)
        ]


def test_what_was_gone_before_has_the_users_and_the_job_of_its_last_labels() -> None:
    seen = picture({"a": [1]})
    pod = {"exported_pod": "train-0", "exported_namespace": "ml"}
    gone = [row(UTIL, "a", 1, T - 60, hpc_job="7"), row(UTIL, "b", 0, T - 60, **pod)]
    seen.memory.take_gone(gone, T)
    # An earlier glance knows less.
    seen.memory.take_gone([row(UTIL, "a", 1, T - 3600, hpc_job="6")], T)
    found = [each for name in "ab" for each in host(seen, name).devices]
    assert [each.job for each in found] == [None, "7", "ml/train-0"]
    assert [each.users for each in found] == [(), (), ("ml",)]


def boards(name: str, uuids: str, **labels: str) -> list[Row]:
    """Return a series a GPU of a host, each by the letter of its UUID."""
    return [row(UTIL, name, n, 0, UUID=f"GPU-{u}", **labels) for n, u in enumerate(uuids)]


def watched(*moments: list[Row]) -> Picture:
    """Return a picture of these series, a minute after one another."""
    seen = Picture()
    seen.inventory.set_names([UTIL, XID])
    for number, series in enumerate(moments):
        seen.inventory.learn(series)
        seen.take_main(series, T + 60 * number, is_partial=False)
        seen.hosts(seen.now)
    return seen


def known(picture: Picture) -> dict[str, list[str]]:
    """Return the states of all hosts and of their devices."""
    return {each.name: states(picture, each.name) for each in picture.hosts(picture.now)}


def test_a_host_that_was_renamed_keeps_its_past() -> None:
    old = boards("na", "ab")
    seen = watched(old)
    seen.memory.take_xids([], T)
    seen.memory.take_xids([row(XID, "na", 0, 79)], T)
    new = boards("nb", "ab")
    for at in (T + 60, T + 600):
        seen.inventory.learn(new)
        seen.take_main(new, at, is_partial=False)
    seen.memory.take_xids([row(XID, "nb", 0, 79)], T + 600)
    assert known(seen) == {"nb": ["ok", "ok", "ok"]}
    assert host(seen, "nb").former_name == "na"
    (gpu, _) = host(seen, "nb").devices
    assert (gpu.idle_seconds, gpu.xid, gpu.xid_seconds) == (600, 79, 600)
    # Its old target may still be there, and answer to nobody.
    seen.take_targets([({"instance": "na:9400", "Hostname": "na"}, None)])
    assert list(known(seen)) == ["nb"]
    seen.take_main(new, T + DAY + 1, is_partial=False)
    assert host(seen, "nb").former_name is None


def test_what_was_lost_while_its_host_was_renamed_is_missed_there() -> None:
    assert known(watched(boards("na", "abcd"), boards("nb", "abc"))) == {
        "nb": ["ok", "ok", "ok", "ok", "lost"]
    }


def test_a_card_that_was_moved_is_missed_nowhere() -> None:
    before, after = boards("a", "abc") + boards("b", "de"), boards("a", "ab") + boards("b", "dec")
    assert known(watched(before, after)) == {"a": ["ok"] * 3, "b": ["ok"] * 4}


def test_a_host_whose_cards_went_to_two_others_is_none_of_them() -> None:
    seen = watched(boards("na", "abcd"), boards("nb", "ab") + boards("nc", "cd"))
    # An earlier glance knows what was there under the old name.
    gone = [row(UTIL, "na", n, T - DAY / 2, UUID=f"GPU-{u}") for n, u in enumerate("abcd")]
    seen.memory.take_gone(gone, T + 60)
    assert known(seen) == {"nb": ["ok"] * 3, "nc": ["ok"] * 3}
    assert host(seen, "nb").former_name is None


def test_a_host_that_has_another_cluster_is_not_renamed() -> None:
    seen = watched(boards("a", "ab"), boards("a", "ab", cluster="east"))
    assert known(seen) == {"a": ["ok"] * 3}
    assert (host(seen).cluster, host(seen).former_name) == ("east", None)


def test_other_cards_at_the_address_of_a_host_are_those_of_another() -> None:
    before, after = boards("a", "ab", instance="x:1"), boards("b", "cd", instance="x:1")
    assert known(watched(before, after)) == {"a": ["down", "ok", "ok"], "b": ["ok"] * 3}


def test_a_host_without_uuids_is_known_by_its_address() -> None:
    before = [row(UTIL, "a", n, 0, instance="x:1") for n in (0, 1)]
    after = [row(UTIL, "b", n, 0, instance="x:1") for n in (0, 1)]
    assert known(watched(before, after)) == {"b": ["ok"] * 3}


def test_a_host_of_two_exporters_is_one_whatever_they_call_it() -> None:
    """The name is that of the one that knows more of it, and no address."""

    def smi(name: str, board: str, **labels: str) -> Row:
        metric = {"__name__": f"nvidia_smi_{name}", "uuid": board, **labels}
        return Row(Raw(json.encode(metric)), (T, "0.5"))

    series = [row(UTIL, "other", 0, 50, UUID="GPU-x", instance="10.0.0.9:9400")]
    for number, board in enumerate("ab"):
        labels = {"instance": "10.0.0.1:9835"}
        series.append(smi("gpu_info", board, index=str(number), **labels))
        series.append(smi("utilization_gpu_ratio", board, **labels))
    seen = Picture()
    seen.inventory.set_names([UTIL, "nvidia_smi_gpu_info", "nvidia_smi_utilization_gpu_ratio"])
    # That one may come later, and be down at times.
    more = boards("lab", "ab", instance="10.0.0.1:9400")
    for name, now in ("10.0.0.1", series), ("lab", [*series, *more]), ("lab", series):
        seen.inventory.learn(now)
        seen.take_main(now, seen.now + T, is_partial=False)
        assert known(seen) == {name: ["ok"] * 3, "other": ["ok"] * 2}
    assert host(seen, "lab").former_name is None
    assert {each.gpu_utilization_percent for each in host(seen, "lab").devices} == {50}


@pytest.mark.parametrize("other", ["lab.example", "dcgm-x7k2"])
def test_two_exporters_of_one_kind_whose_gpus_are_the_same_are_those_of_one_host(
    other: str,
) -> None:
    """As an old and a new one beside each other, which have their own names for it."""
    old, new = boards("lab", "abcd", instance="a:9400"), boards(other, "abcd", instance="a:9401")
    seen = watched([*old, *new])
    assert [*known(seen).values()] == [["ok"] * 5]
    # Neither a GPU that was moved, nor clones of a machine in another cluster.
    moved = watched([*boards("lab", "abcd"), *boards(other, "dxyz")])
    assert len(known(moved)) == 2
    clone = watched([*boards("lab", "abcd", cluster="x"), *boards(other, "abcd", cluster="y")])
    assert len(known(clone)) == 2


def cards(picture: Picture, name: str = "a") -> list[tuple[int, str, str]]:
    """Return index, letter of the UUID and state of the GPUs of a host."""
    found = [each for each in host(picture, name).devices if each.parent_uuid is None]
    return [(each.index, (each.uuid or "-")[-1], each.state) for each in found]


LOST_C = [(0, "a", "ok"), (1, "b", "ok"), (2, "d", "ok"), (2, "c", "lost")]
"""What is left of four GPUs of which the third is lost, after the next start."""


def test_a_gpu_that_is_gone_is_missed_whatever_the_indices_of_the_rest() -> None:
    other = boards("b", "xyz")
    three = [each for each in boards("a", "abcd") if each.labels["gpu"] != "2"]
    seen = watched(boards("a", "abcd") + other, three + other, other, boards("a", "abd") + other)
    assert (cards(seen), host(seen).expected_devices) == (LOST_C, 4)
    assert [each.age_seconds for each in host(seen).devices] == [None, None, None, 180]


def test_a_gpu_of_before_is_missed_whatever_the_indices_of_the_rest() -> None:
    seen = watched(boards("a", "abd"))
    gone = [row(UTIL, "a", n, T - 7200, UUID=f"GPU-{u}") for n, u in ((2, "c"), (3, "d"))]
    seen.memory.take_gone(gone, T)
    assert cards(seen) == LOST_C
    # The index of a look back is that of another now.
    last = [row("", "a", n, at, UUID=f"GPU-{u}") for n, u, at in ((2, "c", T - 5000), (2, "d", T))]
    seen.memory.take_last_seen(last, T)
    assert host(seen).devices[3].age_seconds == 5000


def test_a_gpu_that_comes_back_at_another_index_is_back() -> None:
    assert cards(watched(boards("a", "abcd"), boards("a", "abd"), boards("a", "abdc"))) == [
        (0, "a", "ok"), (1, "b", "ok"), (2, "d", "ok"), (3, "c", "ok")
    ]  # fmt: skip


@pytest.mark.parametrize("between", ["abd", "abcd"], ids=["lost before", "at once"])
def test_a_gpu_that_was_exchanged_is_not_missed(between: str) -> None:
    seen = watched(boards("a", "abcd"), boards("a", between), boards("a", "abed"))
    assert [each[1:] for each in cards(seen)] == [(card, "ok") for card in "abed"]
    assert host(seen).expected_devices == 4


def test_of_two_lost_gpus_the_one_that_was_not_exchanged_is_missed() -> None:
    moments = [boards("a", each) for each in ("abcd", "acd", "ac", "ace")]
    seen = watched(*moments)
    assert [each[1:] for each in cards(seen)] == [
        ("a", "ok"), ("c", "ok"), ("e", "ok"), ("d", "lost")
    ]  # fmt: skip
    # What a look back finds of it is no news.
    seen.memory.take_gone([row(UTIL, "a", 1, T - 600, UUID="GPU-b")], T)
    assert [each[1] for each in cards(seen)] == ["a", "c", "e", "d"]


def test_a_gpu_without_a_uuid_is_the_one_of_its_index_once_it_has_one() -> None:
    seen = watched([row(UTIL, "a", n, 0) for n in range(3)], boards("a", "ab"))
    assert cards(seen) == [(0, "a", "ok"), (1, "b", "ok"), (2, "-", "lost")]
    seen.inventory.learn([row(UTIL, "a", 0, 0)])
    assert cards(seen)[0] == (0, "a", "ok")


def test_mig_instances_go_with_their_gpu_to_another_index() -> None:
    engine = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"

    def of(index: int, card: str) -> list[Row]:
        labels = {"UUID": f"GPU-{card}", "GPU_I_PROFILE": "1g.10gb"}
        return [row(engine, "a", index, 0.5, GPU_I_ID=each, **labels) for each in "78"]

    seen = Picture()
    seen.inventory.set_names([UTIL, engine])
    before, after = boards("a", "ab") + of(2, "c") + of(3, "d"), boards("a", "ab") + of(2, "d")
    for number, now in enumerate((before, boards("a", "ab") + of(3, "d"), after)):
        seen.inventory.learn(now)
        seen.take_main(now, T + 60 * number, is_partial=False)
    assert cards(seen) == LOST_C
    labels = [each.label for each in host(seen).devices]
    assert labels == ["0", "1", "2", "2:7", "2:8", "2", "2:7", "2:8"]
    parents = [each.parent_uuid for each in host(seen).devices if each.parent_uuid]
    assert parents == ["GPU-d", "GPU-d", "GPU-c", "GPU-c"]


def test_of_a_lost_gpu_in_instances_each_job_is_known() -> None:
    engine = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
    labels = {"UUID": "GPU-c", "GPU_I_PROFILE": "1g.10gb"}
    divided = [row(engine, "a", 2, 0.5, GPU_I_ID=n, hpc_job=f"7{n}", **labels) for n in "78"]
    seen = Picture()
    seen.inventory.set_names([UTIL, engine])
    for number, now in enumerate(((*boards("a", "ab"), *divided), boards("a", "ab"))):
        seen.inventory.learn([*now])
        seen.take_main(now, T + 60 * number, is_partial=False)
    gone = host(seen).devices[2:]
    assert [(each.label, each.state, each.job) for each in gone] == [
        ("2", "lost", None),
        ("2:7", "lost", "77"),
        ("2:8", "lost", "78"),
    ]
    then = datetime.fromtimestamp(T + 60, timezone.utc)
    found = Reducer().reduce(FleetSnapshot(taken_at=then, hosts=seen.hosts(T + 60)))
    assert [(each.id, each.broken) for each in found.jobs] == [("77", 1), ("78", 1)]
    (missed,) = (each for each in found.findings if each.rule == "gpus-lost")
    assert missed.sentence.startswith("1 GPU on 1 host ")


def test_the_job_that_a_gpu_had_before_it_was_divided_is_over() -> None:
    engine, labels = "DCGM_FI_PROF_GR_ENGINE_ACTIVE", {"UUID": "GPU-a", "GPU_I_PROFILE": "1g.10gb"}
    divided = [row(engine, "a", 0, 0.5, GPU_I_ID=n, hpc_job=f"7{n}", **labels) for n in "78"]
    seen = Picture()
    seen.inventory.set_names([UTIL, engine])
    whole = [row(UTIL, "a", 0, 1, UUID="GPU-a", hpc_job="70")]
    for number, (now, jobs) in enumerate(
        ((whole, {"70"}), (divided, {"77", "78"}), (divided[:1], {"77"}), ([], {"77"}))
    ):
        others = boards("b", "x")
        seen.inventory.learn([*now, *others])
        seen.take_main([*now, *others], T + 60 * number, is_partial=False)
        assert {job.id for job in seen.jobs()} == jobs


def test_what_comes_back_is_nothing_before_its_labels_are_read_again() -> None:
    """The index alone says that the lost one is back, and that another is lost."""
    other = boards("b", "xyz")
    seen = watched(boards("a", "abcd") + other, boards("a", "ab") + other, other)
    back = [*boards("a", "abd"), *other]
    values = [row(UTIL, "a", n, 7) for n in range(3)] + rows(UTIL, {"b": [7, 7, 7]})
    assert seen.take_main(values, T + 180, is_partial=False, may_doubt=True)
    assert states(seen)[0] == "down"
    seen.inventory.learn(back)
    assert not seen.take_main(values, T + 180, is_partial=False)
    assert cards(seen) == LOST_C


def test_what_a_gpu_did_at_another_index_says_nothing_of_now() -> None:
    seen = watched(boards("a", "abcd"), boards("a", "abd"))
    rested = {n: row("", "a", n, 0, UUID=f"GPU-{u}") for n, u in ((1, "b"), (3, "d"))}
    seen.take_idle(rested.values(), T - 3600)
    assert [each.idle_seconds for each in host(seen).devices] == [60, 3660, 60, None]


def test_a_name_that_is_used_again_is_another_host() -> None:
    last = boards("nb", "ab") + boards("na", "xy")
    assert known(watched(boards("na", "ab"), boards("nb", "ab"), last)) == {
        "na": ["ok"] * 3,
        "nb": ["ok"] * 3,
    }


@pytest.mark.parametrize(
    ("values", "now", "missed"),
    [
        ({"a": 4, "b": 2, "c": 2, "d": 2}, {"a": 2}, 0),
        ({"a": 4, "b": 4, "c": 4, "d": 4}, {"a": 3}, 1),
        ({"a": 4, "b": 4, "c": 4, "d": 4}, {"a": 3, "b": 3, "c": 3, "d": 3}, 1),
        ({"a": 4, "b": 2, "c": 2, "d": 4, "e": 4}, {"a": 2}, 2),
    ],
    ids=["as its siblings", "one fewer", "all at once", "few siblings"],
)
def test_a_host_with_as_many_gpus_as_its_siblings_misses_none(
    values: dict[str, int], now: dict[str, int], missed: int
) -> None:
    seen = picture({name: [1] * count for name, count in values.items()})
    left: dict[str, list[object]] = {name: [1] * count for name, count in {**values, **now}.items()}
    seen.take_main(rows(UTIL, left), T + 60, is_partial=False)
    assert states(seen).count("lost") == missed


def test_what_partial_answers_leave_out_ages_and_is_unknown_in_the_end() -> None:
    seen = picture({"a": [1, 1], "b": [1]})
    seen.take_main(rows(UTIL, {"a": [1]}), T + 60, is_partial=True)
    assert states(seen) == ["ok", "ok", "ok"]
    assert [each.age_seconds for each in host(seen).devices] == [None, 60]
    seen.take_main(rows(UTIL, {"a": [1]}), T + 400, is_partial=True)
    assert states(seen) == ["ok", "ok", "ok"]
    assert host(seen).devices[1].gpu_utilization_percent is None
    assert states(seen, "b") == ["stale", "ok"]
    seen.take_main(rows(UTIL, {"a": [1]}), T + 460, is_partial=False)
    assert states(seen) == ["ok", "ok", "lost"]
    assert states(seen, "b")[0] == "down"


def test_of_a_server_that_is_partial_for_ever_a_gpu_is_lost_beside_others_of_its_host() -> None:
    seen, both = picture({"a": [1, 1], "b": [1]}), {"a": [1, 1], "b": [1]}
    seen.take_main(rows(UTIL, both), T + 60, is_partial=True)
    for at in (T + 120, T + 420):
        seen.take_main(rows(UTIL, {"a": [1]}), at, is_partial=True)
    assert states(seen) == ["ok", "ok", "lost"]
    assert states(seen, "b")[0] == "stale"
    assert host(seen).devices[1].age_seconds == 360


def test_what_partial_answers_never_had_is_unknown_and_has_no_age() -> None:
    seen = Picture()
    seen.inventory.set_names([UTIL])
    seen.inventory.learn(rows(UTIL, {"a": [1, 1], "b": [1]}))
    seen.take_main(rows(UTIL, {"a": [1]}), T, is_partial=True)
    assert states(seen) == ["ok", "ok", "ok"]
    assert states(seen, "b") == ["stale", "ok"]
    assert host(seen, "b").age_seconds is None
    assert {each.age_seconds for each in host(seen).devices} == {None}


def test_counts_idle_time_from_the_last_work() -> None:
    seen = picture({"a": [80]})
    assert first(seen).idle_seconds is None
    seen.take_main(rows(UTIL, {"a": [0]}), T + 10, is_partial=False)
    seen.take_main(rows(UTIL, {"a": [0]}), T + 40, is_partial=False)
    assert first(seen).idle_seconds == 30
    seen.take_idle(rows("", {"a": [0]}), T - 3600)
    assert first(seen).idle_seconds == 3640
    seen.resume()
    seen.take_main(rows(UTIL, {"a": [0]}), T + 600, is_partial=False)
    assert first(seen).idle_seconds == 0
    seen.take_main(rows(UTIL, {"a": [50]}), T + 700, is_partial=False)
    assert first(seen).idle_seconds is None


def test_memory_has_to_be_held_as_long() -> None:
    memory = "DCGM_FI_DEV_FB_USED"
    seen = picture({"a": [0]})
    seen.take_idle(rows("", {"a": [0]}), T - 3600)
    seen.take_field("memory_used_bytes", rows(memory, {"a": [4]}), T)
    assert first(seen).idle_seconds == 3600
    seen.take_main(rows(UTIL, {"a": [0]}), T + 60, is_partial=False)
    seen.take_field("memory_used_bytes", rows(memory, {"a": [40_000]}), T + 60)
    assert first(seen).idle_seconds == 0
    seen.take_held(rows("", {"a": [0]}), T - 1800)
    assert first(seen).idle_seconds == 1860


def test_since_when_a_job_has_a_gpu_is_asked_once_and_not_of_one_that_computed() -> None:
    memory, had = "DCGM_FI_DEV_FB_USED", [row(UTIL, "a", gpu, 0, hpc_job="7") for gpu in range(2)]
    seen = picture({"a": [0, 50]})
    seen.inventory.learn(had)
    seen.take_idle(rows("", {"a": [0]}), T - 3600)
    for at, second in ((T, 50), (T + 60, 50), (T + 120, 0), (T + 600, 0)):
        seen.take_main(rows(UTIL, {"a": [0, second]}), at, is_partial=False)
        seen.take_field("memory_used_bytes", rows(memory, {"a": [4, 4]}), at)
        host(seen)
    assert [each.index for each in seen.given()] == [0]
    began = {"7": T - 1800, "6": T - 9000}
    found = [row("", "a", 0, at, hpc_job=job, first="1") for job, at in began.items()]
    seen.memory.take_given([row("", "a", 0, T - 2000), *found], T + 600)
    assert [each.idle_seconds for each in host(seen).devices] == [2400, 480]
    assert not seen.given()


def test_a_small_device_is_held_by_less_memory() -> None:
    seen = picture({"a": [0]})
    seen.take_idle(rows("", {"a": [0]}), T - 3600)
    seen.take_field("memory_total_bytes", rows("DCGM_FI_DEV_FB_TOTAL", {"a": [8192]}), T)
    for at, used in ((T, 4), (T + 60, 600)):
        seen.take_main(rows(UTIL, {"a": [0]}), at, is_partial=False)
        seen.take_field("memory_used_bytes", rows("DCGM_FI_DEV_FB_USED", {"a": [used]}), at)
        found = first(seen).idle_seconds
    assert found == 0


def test_an_exporter_that_repeats_itself_is_stale_until_it_stops() -> None:
    seen = picture({"a": [1, 1], "b": [1]})
    for number in range(7):
        at = T + number * 60
        seen.take_main(rows(UTIL, {"a": [1, 1], "b": [1]}), at, is_partial=False)
        seen.take_field("power_usage_mw", rows(POWER, {"a": [61.5, 62], "b": [60 + number]}), at)
    assert states(seen)[0] == "stale"
    assert states(seen, "b")[0] == "ok"
    # What a partial answer leaves out has not changed.
    for power in ([61.5], [61.5, 62]):
        seen.take_field("power_usage_mw", rows(POWER, {"a": power, "b": [60]}), at)
        assert states(seen)[0] == "stale"
    seen.take_field("power_usage_mw", rows(POWER, {"a": [61.6, 62], "b": [60]}), at)
    assert states(seen)[0] == "ok"


def test_an_exporter_whose_power_alone_never_changes_repeats_nothing() -> None:
    seen = picture({"a": [1]})
    for number in range(7):
        at = T + number * 60
        seen.take_main(rows(UTIL, {"a": [number]}), at, is_partial=False)
        seen.take_field("power_usage_mw", rows(POWER, {"a": [150]}), at)
    assert states(seen) == ["ok", "ok"]


def test_an_old_sample_makes_a_host_stale() -> None:
    seen = picture({"a": [1]})
    assert (host(seen).state, host(seen).age_seconds) == ("ok", None)
    age = Row(Raw(json.encode({"Hostname": "a"})), (T, str(T - 30)))
    seen.take_ages([age], T)
    assert (host(seen).state, host(seen).age_seconds) == ("ok", 30)
    assert seen.hosts(T + 200)[0].state == "stale"


def test_hosts_are_late_together_where_more_than_one_in_twenty_is() -> None:
    names = "abcdefghijklmnopqrst"
    seen = picture({name: [1] for name in names})
    assert not seen.is_late
    for late, is_late in (("a", False), ("ab", True), (names, True), ("", False)):
        ages = [(name, T - (90 if name in late else 10)) for name in names]
        taken = [Row(Raw(json.encode({"Hostname": n})), (T, str(at))) for n, at in ages]
        seen.take_ages(taken, T)
        assert seen.is_late is is_late


def test_a_host_that_is_scraped_rarely_is_as_rarely_late() -> None:
    seen = watched([row(UTIL, "a", 0, 1, job="dcgm", instance="a:1")])
    seen.take_ages([Row(Raw(json.encode({"Hostname": "a"})), (T, str(T - 235)))], T)
    assert host(seen).state == "stale"
    seen.take_scrapes([Row(Raw(json.encode({"job": "dcgm"})), (T, "5"))], T)
    assert host(seen).state == "ok"
    power = [row(POWER, "a", 0, 61.5, job="dcgm", instance="a:1")]
    for at in (T, T + 300):
        seen.take_main([row(UTIL, "a", 0, 1)], at, is_partial=False)
        seen.take_field("power_usage_mw", power, at)
        assert host(seen).state == "ok"
    assert seen.hosts(T + 800)[0].state == "stale"


def test_a_host_that_is_down_stays_so_until_it_is_seen() -> None:
    """Also where its scrapes, of which some are known only now, look rare."""
    a, b = (row(UTIL, n, 0, 50, job="dcgm", instance=f"{n}:1") for n in "ab")
    seen = watched([a, b])
    seen.take_main([b], T + 20, is_partial=False)
    assert states(seen)[0] == "down"
    seen.take_scrapes([Row(Raw(json.encode({"job": "dcgm"})), (T, "8"))], T + 20)
    assert states(seen)[0] == "down"
    seen.take_main([a, b], T + 40, is_partial=False)
    assert states(seen)[0] == "ok"


def test_one_scrape_that_fails_takes_no_host_down() -> None:
    a, b = (row(UTIL, n, 0, 50, job="dcgm", instance=f"{n}:1", hpc_job=n) for n in "ab")
    seen = watched([a, b])
    seen.take_scrapes([Row(Raw(json.encode({"job": "dcgm"})), (T, "80"))], T)
    for seconds, state in (20, "ok"), (40, "down"):
        seen.take_main([b], T + seconds, is_partial=False)
        assert states(seen)[0] == state
        assert host(seen).age_seconds in (None, seconds)
        assert [each.id for each in seen.jobs()] == ["a", "b"]
    assert states(seen, "b") == ["ok", "ok"]


@pytest.mark.parametrize("label", ["cluster", "exported_cluster", "cluster_name", "k8s_cluster"])
def test_a_host_that_never_answered_is_in_its_cluster(label: str) -> None:
    seen = Picture()
    seen.inventory.set_names([UTIL])
    there = row(UTIL, "a", 0, 1, **{label: "east"})
    seen.inventory.learn([there])
    seen.take_main([there], T, is_partial=False)
    seen.take_targets([({label: "east", "instance": "b:9400"}, None)])
    found = [(each.name, each.cluster, each.state) for each in seen.hosts(T)]
    assert found == [("a", "east", "ok"), ("b", "east", "down")]


@pytest.mark.parametrize(("watched", "xid"), [(True, 79), (False, None)])
def test_an_xid_error_is_new_only_if_it_was_seen_to_come(watched: bool, xid: int | None) -> None:
    seen = picture({"a": [1]})
    if watched:
        seen.memory.take_xids([], T)
    seen.memory.take_xids(rows(XID, {"a": [79]}), T + 60)
    assert first(seen).xid == xid
    seen.memory.take_xids(rows(XID, {"a": [79]}), T + 120)
    assert first(seen).xid == xid
    seen.memory.take_xids(rows(XID, {"a": [31]}), T + 180)
    assert first(seen).xid == 31
    seen.take_main(rows(UTIL, {"a": [1]}), T + 8000, is_partial=False)
    assert first(seen).xid is None


def places(devices: dict[int, list[KnownDevice]]) -> dict[int, list[str]]:
    """Return devices by their host and index."""
    return {
        key: sorted(f"{each.host.name}/{each.index}" for each in some)
        for key, some in devices.items()
    }


def test_an_xid_error_is_as_old_as_the_last_time_that_there_was_another() -> None:
    seen = picture({"a": [1, 1], "b": [1]})
    seen.memory.take_xids(rows(XID, {"a": [79, 79], "b": [31]}), T)
    assert places(seen.memory.undated()) == {79: ["a/0", "a/1"], 31: ["b/0"]}
    times = [row("", "a", 0, T - 4800, xid="79"), row("", "a", 1, T - 60, xid="31")]
    seen.memory.take_xid_times(times, T)
    assert [(each.xid, each.xid_seconds) for each in host(seen).devices] == [
        (79, 4800),
        (None, None),
    ]
    assert host(seen, "b").devices[0].xid is None
    assert not seen.memory.undated()


@pytest.mark.parametrize(
    ("code", "first_hours", "shown"), [(79, 2, 79), (79, 23.9, None), (31, 0.1, None)]
)
def test_an_error_that_is_older_than_all_samples_is_shown_if_it_needs_a_person(
    code: int, first_hours: float, shown: int | None
) -> None:
    seen = picture({"a": [1]})
    seen.memory.take_xids(rows(XID, {"a": [code]}), T)
    assert places(seen.memory.undated()) == {code: ["a/0"]}
    since = row("", "a", 0, T - 3600 * first_hours, xid=str(code), first="1")
    seen.memory.take_xid_times([since], T)
    assert (first(seen).xid, first(seen).xid_seconds) == (shown, None)
    seen.take_main(rows(UTIL, {"a": [1]}), T + 86400, is_partial=False)
    assert first(seen).xid is None


def test_an_xid_error_is_no_newer_because_its_host_was_away() -> None:
    seen = picture({"a": [1], "b": [1]})
    seen.memory.take_xids([], T)
    seen.take_main(rows(UTIL, {"b": [1]}), T + 60, is_partial=False)
    seen.memory.take_xids([], T + 60)
    seen.take_main(rows(UTIL, {"a": [1], "b": [1]}), T + 120, is_partial=False)
    seen.memory.take_xids(rows(XID, {"a": [79]}), T + 120)
    assert first(seen).xid is None
    assert places(seen.memory.undated()) == {79: ["a/0"]}


def test_what_was_there_before_is_missed_since_when_it_was_seen_last() -> None:
    seen = picture({"a": [1]})
    seen.memory.take_gone([row(UTIL, "a", 1, T - 7200), row(UTIL, "b", 0, T - 3600)], T)
    assert states(seen) == ["ok", "ok", "lost"]
    assert states(seen, "b")[0] == "down"
    assert (host(seen).devices[1].age_seconds, host(seen, "b").age_seconds) == (None, None)
    for _ in ("fails", "is answered"):
        assert places(seen.memory.lost()) == {1: ["a/1", "b/0"]}
    seen.memory.take_last_seen([row("", "a", 1, T - 5000), row("", "b", 0, T - 900)], T)
    assert (host(seen).devices[1].age_seconds, host(seen, "b").age_seconds) == (5000, 900)
    assert not seen.memory.lost()


def test_what_a_host_had_before_it_became_as_its_siblings_is_never_missed() -> None:
    seen = picture({name: [1] for name in "abc"} | {"d": [1]})
    seen.memory.take_gone([row(UTIL, "a", 1, T - 7200)], T)
    assert states(seen) == ["ok", "ok"]


def test_what_comes_back_and_goes_again_is_missed_since_then() -> None:
    seen = picture({"a": [1]})
    seen.memory.take_gone([row(UTIL, "a", 1, T - 7200)], T)
    seen.take_main(rows(UTIL, {"a": [1, 1]}), T + 60, is_partial=False)
    assert states(seen) == ["ok"] * 3
    seen.take_main(rows(UTIL, {"a": [1]}), T + 180, is_partial=False)
    assert (states(seen)[2], host(seen).devices[1].age_seconds) == ("lost", 120)


@pytest.mark.parametrize(
    ("values", "percents"),
    [
        ({"a": [0.93, 0]}, [93, 0]),
        ({"a": [93, 1]}, [93, 1]),
        ({"a": [93, 1], "b": [1, 0]}, [93, 1, 1, 0]),
        ({"a": [93, 1], "b": [0.5, 1]}, [93, 1, 50, 100]),
        ({"a": [1, 0]}, [100, 0]),
    ],
)
def test_a_ratio_above_one_is_a_percentage(
    values: dict[str, list[object]], percents: list[float]
) -> None:
    name = "DCGM_FI_DEV_GPU_UTIL_RATIO"
    seen = Picture()
    seen.inventory.set_names([name])
    seen.inventory.learn(rows(name, values))
    seen.take_main(rows(name, values), T, is_partial=False)
    found = [d.gpu_utilization_percent for h in seen.hosts(T) for d in h.devices]
    assert found == pytest.approx(percents)


@pytest.mark.parametrize(
    ("field", "possible", "impossible"),
    [
        ("gpu_utilization_percent", (0, 100, 100.4), (250, 9223372036854775794)),
        ("temperature_celsius", (0, 95), (2147483632,)),
        # In bytes where MiB were expected, in mW where watts were.
        ("memory_used_bytes", (0, 81559), (81559 << 20, 2147483632)),
        ("power_usage_mw", (0, 1200), (500000,)),
        ("sm_clock_mhz", (0, 1980), (1980e6,)),
    ],
)
def test_what_no_gpu_can_have_is_not_known(
    field: str, possible: tuple[float, ...], impossible: tuple[float, ...]
) -> None:
    dcgm = next(each for each in dialects() if each.name == "dcgm-exporter")
    name = dcgm.of(field)[0].name
    for values, is_known in ((possible, True), (impossible, False)):
        seen = Picture()
        seen.inventory.set_names([name])
        some = rows(name, {"a": [*values]})
        seen.inventory.learn(some)
        seen.take_main(some, T, is_partial=False)
        seen.take_field(field, some, T)
        found = [getattr(each, field) for each in host(seen).devices]
        assert [each is not None for each in found] == [is_known] * len(values)
        assert field != "gpu_utilization_percent" or max(each or 0 for each in found) <= 100


def test_hosts_that_only_ports_tell_apart_are_down_one_by_one() -> None:
    def at(port: int) -> Row:
        metric = {"__name__": UTIL, "gpu": "0", "UUID": f"GPU-{port}", "job": "dcgm"}
        return Row(Raw(json.encode({**metric, "instance": f"localhost:{port}"})), (T, "50"))

    seen = Picture()
    seen.inventory.set_names([UTIL])
    for ports in ((1, 2, 3), (1,)):
        some = [at(port) for port in ports]
        seen.inventory.learn(some)
        seen.take_main(some, T + 60 * (len(ports) == 1), is_partial=False)
    failing = ({"job": "dcgm", "instance": f"localhost:{port}"} for port in (2, 4))
    seen.take_targets((labels, None) for labels in failing)
    assert {each.name: (each.state, each.message) for each in seen.hosts(seen.now)} == {
        "localhost:1": ("ok", None),
        "localhost:2": ("down", "localhost:2 does not answer the scrapes"),
        "localhost:3": ("down", "its series have ended"),
        "localhost:4": ("down", "localhost:4 does not answer the scrapes"),
    }


def test_a_gpu_that_was_repartitioned_is_not_lost() -> None:
    engine = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
    seen = picture({"a": [1, 1]})
    instance = row(engine, "a", 1, 0.5, GPU_I_ID="7", GPU_I_PROFILE="1g.10gb", UUID="GPU-1")
    seen.inventory.set_names([UTIL, engine])
    now = [row(UTIL, "a", 0, 1), instance]
    seen.inventory.learn(now)
    seen.take_main(now, T + 60, is_partial=False)
    assert states(seen) == ["ok"] * 4
    assert host(seen).devices[2].gpu_utilization_percent == 50
    assert [each.label for each in host(seen).devices] == ["0", "1", "1:7"]
    assert host(seen).devices[2].parent_uuid == host(seen).devices[1].uuid == "GPU-1"


def test_a_gpu_that_can_replace_no_more_memory_rows_is_unusable() -> None:
    seen = picture({"a": [1, 1]})
    failed = "DCGM_FI_DEV_ROW_REMAP_FAILURE"
    seen.inventory.set_names([UTIL, failed])
    (query,) = (each for each in questions() if each.name == "worn")
    (expression,) = query.expressions(seen)
    assert failed in expression
    query.take(seen, [row(failed, "a", 1, 1)], T)
    assert [each.status for each in host(seen).devices] == ["unknown", "unusable"]
    query.take(seen, [], T + 600)
    assert [each.status for each in host(seen).devices] == ["unknown", "unknown"]


def test_names_of_others_are_made_printable() -> None:
    evil = "\x1b]52;c;x\x07[bold]\n"
    seen = Picture()
    series = row(UTIL, evil, 0, 1, UUID=evil, modelName=evil, pod=evil, namespace=evil)
    seen.inventory.set_names([UTIL])
    seen.inventory.learn([series])
    seen.take_main([series], T, is_partial=False)
    (found,) = seen.hosts(T)
    (device,) = found.devices
    (job,) = seen.jobs()
    texts: Iterable[str | None] = (found.name, device.uuid, device.name, device.job, job.id)
    assert all(text and text.isprintable() for text in (*texts, *device.users))


def test_a_label_that_is_not_utf8_costs_only_its_series() -> None:
    odd = Row(Raw(b'{"__name__":"%s","gpu":"0","Hostname":"b\xff"}' % UTIL.encode()), (T, "1"))
    seen = Picture()
    seen.inventory.set_names([UTIL])
    seen.inventory.learn([odd, row(UTIL, "a", 0, 7)])
    seen.take_main([odd, row(UTIL, "a", 0, 7)], T, is_partial=False)
    assert [(each.name, len(each.devices)) for each in seen.hosts(T)] == [("a", 1)]
    assert first(seen).gpu_utilization_percent == 7


_LABELS = st.dictionaries(
    st.sampled_from(["__name__", "Hostname", "gpu", "UUID", "GPU_I_ID", "instance", "pod", "xid"]),
    st.sampled_from([UTIL, POWER, XID, "a", "b", "0", "1", "", "-1", "١", "9" * 30, "x:9400"]),
)
_VALUES = st.sampled_from(["0", "1", "93.5", "NaN", "+Inf", "-3", "1e400", "", "1e18", "zwölf"])


@given(st.lists(st.tuples(_LABELS, _VALUES)))
def test_any_series_are_understood_somehow(series: list[tuple[dict[str, str], str]]) -> None:
    some = [Row(Raw(json.encode(labels)), (T, value)) for labels, value in series]
    seen = picture({"a": [1]})
    seen.inventory.learn(some)
    seen.take_main(some, T, is_partial=False)
    seen.take_field("power_usage_mw", some, T)
    seen.memory.take_xids(some, T)
    seen.take_ages(some, T)
    seen.take_users(some, T)
    seen.take_targets(((each.labels, None) for each in some), (each.labels for each in some))
    for found in seen.hosts(T):
        assert json.decode(json.encode(found), type=FleetHost) == found
