from __future__ import annotations

import pynvml

from gpudash.collect.simulated.constants import CONSTANTS


def test_constants_have_the_values_that_pynvml_gives_them() -> None:
    assert {name: getattr(pynvml, name) for name in CONSTANTS} == CONSTANTS
