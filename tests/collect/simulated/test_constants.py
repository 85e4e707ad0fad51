from __future__ import annotations

import pynvml
import pytest

from gpudash.collect.simulated.constants import CONSTANTS


@pytest.mark.parametrize("name", sorted(CONSTANTS))
def test_constant_has_the_value_that_pynvml_gives_it(name):
    real = getattr(pynvml, name)
    # pynvml declares NVML_P2P_CAPS_INDEX_READ with a trailing comma: a tuple of one.
    assert CONSTANTS[name] == (real[0] if isinstance(real, tuple) else real)
