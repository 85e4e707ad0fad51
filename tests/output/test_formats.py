import subprocess
import sys

import pytest

from gpudash.output import FORMATS, Destination
from tests.factories import make_snapshot


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_writes_a_snapshot_as_whole_lines(name):
    assert FORMATS[name](make_snapshot(), Destination()).endswith(b"\n")


def test_json_is_one_line_unless_a_person_reads_it():
    line = FORMATS["json"](make_snapshot(), Destination())
    assert line.count(b"\n") == 1
    assert FORMATS["json"](make_snapshot(), Destination(is_terminal=True)).count(b"\n") > 100


def test_the_table_keeps_to_ascii_and_to_the_width_that_it_is_given():
    text = FORMATS["table"](make_snapshot(), Destination(width=60, ascii=True))
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 60


def test_no_format_is_loaded_before_it_is_used():
    code = "import sys, gpudash.output as o; print([m for m in sys.modules if 'output.' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
