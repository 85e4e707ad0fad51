"""Names, units and labels of exporters, and which label names a host."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.fleet.prometheus.catalog import Catalog
from gpudash.fleet.prometheus.dialects import (
    DATED_XIDS,
    ENGINE,
    FIELDS,
    IDENTITY,
    MEMORY_REST,
    USERS,
    WORN,
    XIDS,
    choose_labels,
    dialects,
    host_name,
    known_series,
)
from gpudash.fleet.prometheus.queries import Metric, last_seen, matcher, promql, value
from gpudash.model.details import detailed_fields
from gpudash.model.device import device_fields
from gpudash.model.units import Unit

_TEXT = st.text(max_size=20)


def row(**labels: str) -> dict[str, str]:
    return {"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": "0", **labels}


def test_both_generations_of_dcgm_have_all_fields_that_the_old_one_had() -> None:
    (dcgm,) = (each for each in dialects() if each.name == "dcgm-exporter")
    names = {name: device_fields()[name].dcgm for name in FIELDS}
    for field, dcgm_names in names.items():
        assert [each.name for each in dcgm.of(field)][: len(dcgm_names)] == list(dcgm_names)
    factors = {series.name: series.factor for series in dcgm.series}
    assert factors["DCGM_FI_DEV_FB_USED"] == 1 << 20
    assert factors["DCGM_FI_DEV_GPU_UTIL_RATIO"] == 100
    assert factors["DCGM_FI_DEV_SM_CLOCK_HERTZ"] == pytest.approx(1e-6)


def test_every_series_is_of_something_that_is_read() -> None:
    beside = {ENGINE, *MEMORY_REST, IDENTITY, USERS, WORN, XIDS, DATED_XIDS}
    assert {each.field for dialect in dialects() for each in dialect.series} == {*FIELDS, *beside}


def test_no_name_is_in_two_dialects() -> None:
    assert len(known_series()) == sum(len(each.series) for each in dialects())


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        ([row(Hostname="a"), row(hostname="b")], ["a", "b"]),
        ([row(instance="a:9400"), row(instance="b:9400")], ["a", "b"]),
        ([row(instance="[::1]:9400"), row(instance="[::2]:9400")], ["::1", "::2"]),
        # Tunnels to several hosts; two exporters of one.
        (
            [row(instance=f"localhost:{port}", gpu="0", UUID=f"GPU-{port}") for port in (1, 2)],
            ["localhost:1", "localhost:2"],
        ),
        (
            [row(instance=f"a:{port}", gpu="0", UUID="GPU-0") for port in (1, 2)],
            ["a", "a"],
        ),
        (
            [row(instance=f"a:{gpu}", gpu=gpu, UUID=f"GPU-{gpu}") for gpu in "01"],
            ["a", "a"],
        ),
        ([row(instance="fd00::77"), row(instance="fd00::9400")], ["fd00::77", "fd00::9400"]),
        (
            [
                row(Hostname="nvidia-dcgm-exporter-x2x", kubernetes_node="a"),
                row(Hostname="dcgm-exporter-abcde", kubernetes_node="b"),
            ],
            ["a", "b"],
        ),
        (
            [row(hostname="same", instance="a:1"), row(hostname="same", instance="b:1")],
            ["a", "b"],
        ),
        (
            [row(hostname="10.0.0.1", instance="a:8000"), row(hostname="10.0.0.2", instance="b:8")],
            ["a", "b"],
        ),
        (
            [row(hostname="10.0.0.1", instance="x:1"), row(hostname="b", instance="y:1")],
            ["10.0.0.1", "b"],
        ),
        ([row(Hostname="only")], ["only"]),
        ([row()], [None]),
    ],
)
def test_finds_the_label_that_names_hosts(rows: list[dict[str, str]], names: list[str]) -> None:
    choice = choose_labels(rows)
    found = [choice.host(each) for each in rows]
    assert [each and each[1] for each in found] == names


def test_a_setting_overrules_the_label() -> None:
    rows = [row(Hostname="a", my="x"), row(Hostname="b", my="y")]
    choice = choose_labels(rows, "my")
    assert [choice.host(each) for each in rows] == [("my", "x"), ("my", "y")]


@pytest.mark.parametrize(
    ("labels", "person"),
    [
        ({"pod": "train", "namespace": "ml"}, ("ml", "ml/train", "kubernetes")),
        ({"pod": "nvidia-dcgm-exporter-1", "namespace": "gpu-operator"}, None),
        ({"pod": "exp-1", "job": "exp"}, None),
        ({"hpc_job": "42"}, (None, "42", "slurm")),
        (
            {"pod": "exporter", "exported_pod": "train", "exported_namespace": "ml"},
            ("ml", "ml/train", "kubernetes"),
        ),
    ],
)
def test_finds_who_has_a_gpu(labels: dict[str, str], person: tuple[str, ...] | None) -> None:
    assert choose_labels([row(**labels)]).person(row(**labels)) == person


def test_the_exporters_own_pod_has_no_gpu_where_another_has() -> None:
    rows = [row(pod="dcgm-x1", exported_pod="train"), row(pod="dcgm-x2")]
    choice = choose_labels(rows)
    assert choice.person(rows[0]) == (None, "train", "kubernetes")
    assert choice.person(rows[1]) is None


def test_jobs_with_and_without_honoured_labels_have_each_their_pods() -> None:
    exported = [row(job="a", pod="dcgm-x1", exported_pod="train"), row(job="a", pod="dcgm-x2")]
    honoured = [row(job="b", pod="serve-0", namespace="web"), row(job="b")]
    old = [row(job="c", pod="dcgm-x3", pod_name="tune-0", pod_namespace="ml")]
    rows = [*exported, *honoured, *old]
    choice = choose_labels(rows)
    found = [choice.person(each) for each in rows]
    assert [each and each.job for each in found] == [
        "train",
        None,
        "web/serve-0",
        None,
        "ml/tune-0",
    ]


@given(st.lists(st.dictionaries(st.sampled_from(["hostname", "pod", "job", "rack"]), _TEXT)))
def test_any_labels_are_understood_somehow(rows: list[dict[str, str]]) -> None:
    choice = choose_labels(rows)
    for each in rows:
        choice.host(each)
        choice.person(each)


@given(st.text(min_size=1))
def test_a_host_has_a_name(instance: str) -> None:
    assert host_name(instance)


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1), min_size=1, max_size=4))
def test_a_matcher_matches_its_values_only(values: list[str]) -> None:
    """By Python's expressions, which take the same escapes."""
    text = matcher("host", values)
    assert text.startswith('host=~"')
    assert text.endswith('"')
    assert "\n" not in text
    inner = re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], text[7:-1], flags=re.DOTALL)
    expression = re.compile(inner)
    assert all(expression.fullmatch(value) for value in values)
    assert expression.fullmatch("".join(values) + "x") is None


@pytest.mark.parametrize("end", ["", "0", "7", "8", "15", "GPU-5c", "GPU-52"])
def test_each_device_is_in_one_part_of_a_long_query(end: str) -> None:
    names = frozenset({"DCGM_FI_DEV_GPU_UTIL"})
    catalog = Catalog(names, {"dcgm-exporter": choose_labels([row(Hostname="a")])})
    (term,) = catalog.main()
    asked = [re.fullmatch(r'gpu(=~|!~)"(.*)"', part.matcher) for part in term.parts()]
    fits = [each and bool(re.fullmatch(each[2], end)) is (each[1] == "=~") for each in asked]
    assert fits.count(True) == 1
    assert fits.count(False) == len(fits) - 1


def test_asks_for_one_generation_only_where_the_other_is_not_there() -> None:
    names = frozenset({"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"})
    some = [row(Hostname="a"), row(Hostname="b", GPU_I_ID="7")]
    catalog = Catalog(names, {"dcgm-exporter": choose_labels(some)})
    whole = "max by (__name__, Hostname, hostname, gpu, GPU_I_ID) (DCGM_FI_DEV_GPU_UTIL)"
    assert promql(catalog.main(), value) == (
        f"{whole} or max by (__name__, Hostname, hostname, gpu, GPU_I_ID) "
        '(DCGM_FI_PROF_GR_ENGINE_ACTIVE{GPU_I_ID!=""})'
    )
    # Instances that there may be soon are found by their identity.
    catalog = Catalog(names, {"dcgm-exporter": choose_labels(some[:1])})
    assert promql(catalog.main(), value) == whole
    assert "GPU_I_ID" in (promql(catalog.identity(), value) or "")
    assert promql(catalog.field("memory_used_bytes"), value) is None
    assert promql(Catalog(frozenset()).identity(), value) is None


def test_looks_back_at_the_names_that_other_versions_of_an_exporter_have() -> None:
    choices = {"dcgm-exporter": choose_labels([row(hostname="a")])}
    catalog = Catalog(frozenset({"DCGM_FI_DEV_GPU_UTIL_RATIO"}), choices)
    (now,) = catalog.main()
    assert now.names == ("DCGM_FI_DEV_GPU_UTIL_RATIO",)
    assert {term.names[0] for term in catalog.past()} == {*now.names, "DCGM_FI_DEV_GPU_UTIL"}
    assert {"Hostname", "hostname"} < {*now.by.split(", ")}


@pytest.mark.parametrize("is_single", [True, False])
def test_the_mean_of_all_counts_a_gpu_with_two_series_once(*, is_single: bool) -> None:
    names = frozenset({"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE"})
    catalog = Catalog(names, {"dcgm-exporter": choose_labels([row(Hostname="a")])})
    for field, name, factor in (
        ("gpu_utilization_percent", "DCGM_FI_DEV_GPU_UTIL", ""),
        ("power_usage_mw", "DCGM_FI_DEV_POWER_USAGE", " * 1000"),
    ):
        each = name if is_single else f"max by (Hostname, hostname, gpu, GPU_I_ID) ({name})"
        asked = catalog.chart(field, {}, by_device=False, percent={}, is_single=is_single)
        assert asked == f"avg({each}{factor})"


def test_exporters_that_show_the_same_gpus_are_those_of_one_host() -> None:
    two = [row(instance=f"{name}:9836", Hostname="demo", UUID="GPU-1") for name in ("a", "b")]
    (named,) = {choose_labels(two).host(each) for each in two}
    assert named == ("Hostname", "demo")
    others = [row(instance=f"{name}:9836", Hostname="demo", UUID=name) for name in ("a", "b")]
    assert {choose_labels(others).host(each) for each in others} == {
        ("instance", "a"),
        ("instance", "b"),
    }


def test_for_the_time_of_a_sample_only_some_of_the_past_is_read() -> None:
    spans = set()
    for days in (1, 7):
        for glance in "01234":
            text = last_seen(days * 86400)(Metric(("util",), past_by="gpu", bound=glance))
            found = re.search(r"\[(\d+)s:", text)
            assert found is not None
            spans.add(is_long := int(found[1]) > 86400)
            assert ("timestamp(" in text) is not is_long
    assert spans == {True, False}


_SCALES = {
    "_ratio": (Unit.PERCENT, 100),
    "_percent": (Unit.PERCENT, 1),
    "_percentage": (Unit.PERCENT, 1),
    "_bytes": (Unit.BYTE, 1),
    "_mib": (Unit.BYTE, 1 << 20),
    "_w": (Unit.MILLIWATT, 1000),
    "_watts": (Unit.MILLIWATT, 1000),
    "_mw": (Unit.MILLIWATT, 1),
    "_c": (Unit.CELSIUS, 1),
    "_celsius": (Unit.CELSIUS, 1),
    "_hz": (Unit.MEGAHERTZ, 1e-6),
    "_hertz": (Unit.MEGAHERTZ, 1e-6),
    "_mhz": (Unit.MEGAHERTZ, 1),
    # Names without a unit, by what NVIDIA documents.
    "dcgm_fi_dev_gpu_util": (Unit.PERCENT, 1),
    "_active": (Unit.PERCENT, 100),
    "_used": (Unit.BYTE, 1 << 20),
    "_free": (Unit.BYTE, 1 << 20),
    "_total": (Unit.BYTE, 1 << 20),
    "_reserved": (Unit.BYTE, 1 << 20),
    "_temp": (Unit.CELSIUS, 1),
    "temperature_gpu": (Unit.CELSIUS, 1),
    "_power_usage": (Unit.MILLIWATT, 1000),
    "_limit": (Unit.MILLIWATT, 1000),
    "_clock": (Unit.MEGAHERTZ, 1),
}
"""The unit of a field, and what its value is of a series whose name ends so."""


def test_a_factor_leads_from_the_unit_of_a_name_to_that_of_its_field() -> None:
    known = detailed_fields()
    for each in (each for dialect in dialects() for each in dialect.series):
        unit = known[each.field].unit if each.field in known else Unit.NONE
        if unit is not Unit.NONE:
            scales = [scale for end, scale in _SCALES.items() if each.name.lower().endswith(end)]
            assert [(unit, pytest.approx(each.factor))] == scales, each.name
