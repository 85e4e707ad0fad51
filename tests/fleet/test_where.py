import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpudash.analysis.filter.terms import Term
from gpudash.fleet.collector import narrowed
from gpudash.fleet.groups import GROUPINGS
from gpudash.fleet.reduce import Reducer
from gpudash.fleet.summary import fitting, host_rows
from gpudash.fleet.where import GRAMMAR_OF_EVENTS, TERMS, GpuOfHost, passing, where
from gpudash.model.errors import FilterError
from gpudash.model.fleet import Event
from gpudash.model.text import SafeText
from tests.fleet.many import INSTANT, device, fleet, host

HOSTS = (
    host(1, "busy", "held-idle", "free"),
    host(2, "lost", group="r99"),
    host(3, "busy", state="stale", age_seconds=400.0),
    host(4, state="down", devices=(), age_seconds=None),
    host(
        5, devices=(device(0, name=SafeText("NVIDIA L40S"), xid=79, job=SafeText("ml/trainer-0")),)
    ),
)


def found(text: str) -> list[tuple[str, int]]:
    """The hosts that a filter leaves, with how many of their GPUs."""
    return [(row.host.name[-1], row.gpus) for row in fitting(host_rows(fleet(HOSTS)), where(text))]


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("", [("1", 3), ("2", 1), ("3", 1), ("4", 0), ("5", 1)]),
        ("gpu0001", [("1", 3)]),
        ("host:gpu[0001-0002,0004]", [("1", 3), ("2", 1), ("4", 0)]),
        ("host:GPU0001,gpu0004", [("1", 3), ("4", 0)]),
        ("host!=gpu[0001-0004]", [("5", 1)]),
        ("rack:r99", [("2", 1)]),
        ("state:held", [("1", 1)]),
        ("state:free", [("1", 1)]),
        ("state:lost", [("2", 1)]),
        ("state:down", [("4", 0)]),
        ("state:stale", [("3", 1)]),
        ("-state:busy -state:down", [("1", 2), ("2", 1), ("3", 1)]),
        ("user:bob", [("1", 1)]),
        ("user:alice", [("1", 1), ("3", 1), ("5", 1)]),
        ("user:alice state:stale", [("3", 1)]),
        ("user:alice util>50", [("1", 1), ("5", 1)]),
        ("job:4242", [("1", 1), ("3", 1)]),
        ("idle>1h mem>10G", [("1", 1)]),
        ("util>50", [("1", 1), ("5", 1)]),
        ("util<5", [("1", 2), ("2", 1)]),
        ("power>500", [("1", 1), ("5", 1)]),
        ("power<100W", [("1", 2), ("2", 1)]),
        ("temp>60C", [("1", 1), ("5", 1)]),
        ("xid:79", [("5", 1)]),
        ("age>1m", [("3", 1)]),
        ("model:l40s", [("5", 1)]),
        ("l40s", [("5", 1)]),
        ("ns:ml", [("5", 1)]),
        ("job:trainer", [("5", 1)]),
        ("gpu:2", [("1", 1)]),
        ("driver:550", [("1", 3), ("2", 1), ("3", 1), ("4", 0), ("5", 1)]),
    ],
)
def test_a_filter_leaves_the_gpus_that_match(text: str, hosts: list[tuple[str, int]]) -> None:
    assert found(text) == hosts


@pytest.mark.parametrize("text", ["job:4242", "user:alice", "alice"])
def test_what_is_found_about_a_silent_host_passes_a_filter_for_what_it_had(text: str) -> None:
    whole = Reducer().reduce(fleet((host(1), host(2, state="down"))))
    narrow = narrowed(whole, where(text), lambda _name: None)
    assert [each.hosts for each in narrow.findings if each.rule == "host-down"] == [("gpu0002",)]
    assert narrow.users == whole.users


@pytest.mark.parametrize(
    "text",
    [
        "idle>",
        "idle>soon",
        "util:x",
        "power>lots",
        "nonsense:1",
        "gpu:0:x",
        "host:gpu[",
        "-",
        'user:"a',
    ],
)
def test_what_is_wrong_is_named_with_its_word(text: str) -> None:
    with pytest.raises(FilterError) as caught:
        where(text)
    assert 0 <= caught.value.start <= caught.value.end <= len(text)


@pytest.mark.parametrize("value", ["slurm:debug[1]", "@lab[1]", "!gpu[1-2]"])
def test_a_name_is_never_looked_up_elsewhere(value: str) -> None:
    with pytest.raises(FilterError):
        where(f"host:{value}")


@pytest.mark.parametrize("term", TERMS, ids=lambda term: str(term.names[0]))
def test_each_example_is_a_filter(term: Term[GpuOfHost]) -> None:
    assert where(term.example) is not None


@pytest.mark.parametrize("text", ["state:bogus", "-state=lst", "status:busy,bogus", "state=bu"])
def test_a_state_that_is_none_is_refused_with_the_choices(text: str) -> None:
    with pytest.raises(FilterError, match=r"expected lost, .*held-idle, .*down"):
        where(text)


def test_a_mig_instance_is_on_the_gpu_that_it_is_of() -> None:
    hosts = (host(1, devices=(device(0), device(7, parent_uuid="GPU-0"), device(1))),)
    (row,) = fitting(host_rows(fleet(hosts)), where("gpu:0"))
    assert [each.index for each in row.devices] == [0, 7]
    assert fitting(host_rows(fleet(hosts)), where("gpu:7")) == []
    (row,) = fitting(host_rows(fleet(hosts)), where("gpu:0:7"))
    assert [each.index for each in row.devices] == [7]


def test_brackets_match_the_short_name() -> None:
    long = replace(host(1, "busy"), name=SafeText("gpu07.lab.example"))
    assert [
        row.host.name for row in fitting(host_rows(fleet([long])), where("host:gpu[01-08]"))
    ] == [long.name]


@given(st.text(max_size=60))
def test_any_text_is_a_filter_or_one_line_of_error(text: str) -> None:
    try:
        found(text)
    except FilterError as refused:
        message = str(refused)
    else:
        message = ""
    assert "\n" not in message


@given(st.lists(st.sampled_from([*(t.example for t in TERMS), "bob", "state:busy"]), min_size=1))
def test_words_narrow_and_a_negation_turns_around(words: list[str]) -> None:
    for each in HOSTS:
        for gpu in (*each.devices, None):
            single = [(where(word), where(f"-{word}")) for word in words]
            expected = [fits(each, gpu) for fits, _ in single if fits is not None]
            denied = [fits(each, gpu) for _, fits in single if fits is not None]
            whole = where(" ".join(words))
            assert whole(each, gpu) is all(expected)
            assert denied == [not fits for fits in expected]


@pytest.mark.parametrize(
    ("words", "fits"),
    [
        ("", "xid down began"),
        ("host:gpu0005 gpu:0 kind:xid", "xid"),
        ("xid:79", "xid"),
        ("off", "xid"),
        ("-kind:xid", "down began"),
        ("kind:down,job", "down began"),
        ("job:77 user:EVE", "began"),
        ("host:gpu0009", "began"),
        ("model:l40s", "xid"),
        ("rack:r01", "xid down"),
        ("state:down", "down"),
        ("job:trainer", ""),
        ("-job:ended", "down began"),
        ("gpu:1", ""),
    ],
)
def test_what_happened_is_filtered_in_the_same_words(words: str, fits: str) -> None:
    found = {
        "xid": Event(
            at=INSTANT,
            kind="xid",
            host=SafeText("gpu0005"),
            gpu=SafeText("0"),
            uuid=SafeText("GPU-0"),
            xid=79,
            job=SafeText("ended"),
            what=SafeText("fell off the bus"),
        ),
        "down": Event(at=INSTANT, kind="host-down", host=SafeText("gpu0004"), what=SafeText("-")),
        "began": Event(
            at=INSTANT,
            kind="job-began",
            job=SafeText("77"),
            user=SafeText("eve"),
            what=SafeText("16 GPUs on gpu0008, gpu0009"),
        ),
    }
    shown = passing([*found.values()], HOSTS, GRAMMAR_OF_EVENTS.parse(words))
    assert [name for name, event in found.items() if event in shown] == fits.split()


def test_a_kind_of_event_is_refused_where_gpus_are_filtered_and_where_there_is_none() -> None:
    with pytest.raises(FilterError, match="is not a filter term"):
        where("kind:xid")
    with pytest.raises(FilterError, match=r"expected gpu-lost, .*signal"):
        GRAMMAR_OF_EVENTS.parse("gpu:2 kind:foo")


def test_hosts_are_added_up_by_what_the_filter_has_a_term_for() -> None:
    assert GROUPINGS.keys() <= {name for term in TERMS for name in term.names}
