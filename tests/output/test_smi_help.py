import re

import pytest

from gpudash.output import smi_help
from gpudash.output.queries import QUERIES
from gpudash.output.smi import NOT_READ
from tests.factories import make_host

PARAGRAPH = re.compile(r'\n\n("[\w.]+"(?: or "[\w.]+")*)\n(.+)')
"""How exporters find the fields."""


@pytest.mark.parametrize("query", QUERIES)
def test_each_field_is_a_paragraph_with_all_its_names(query: str) -> None:
    text = smi_help.query_fields(query)
    assert text.startswith(f'List of valid properties to query for the switch "--query-{query}":\n')
    assert text.endswith("\n\n")
    names = [re.findall(r'"([^"]+)"', group) for group, _ in PARAGRAPH.findall(text)]
    assert [name for group in names for name in group] == [
        name
        for first, field in QUERIES[query].fields.items()
        if first == field.name
        for name in (field.name, *field.aliases)
    ]


@pytest.mark.parametrize("query", QUERIES)
def test_what_is_read_is_described(query: str) -> None:
    said = dict(PARAGRAPH.findall(smi_help.query_fields(query)))
    silent = {name.strip('"') for name, text in said.items() if text == "Always [N/A] here."}
    assert silent == (set(NOT_READ) if query == "gpu" else set())


def test_help_begins_as_that_of_nvidia_smi() -> None:
    first, *others = smi_help.usage("580.159.04").splitlines()
    assert first == "NVIDIA System Management Interface -- v580.159.04"
    for query in QUERIES:
        assert any(line.startswith(f"    --query-{query} ") for line in others)


def test_versions() -> None:
    host = make_host(
        driver_version="550.54.15", nvml_version="12.550.54.15", cuda_driver_version="12.4"
    )
    assert smi_help.versions(host) == (
        "NVIDIA-SMI version  : 550.54.15\n"
        "NVML version        : 550.54\n"
        "DRIVER version      : 550.54.15\n"
        "CUDA Version        : 12.4\n"
    )
