"""The rules by family; importing this package declares them all."""

from __future__ import annotations

from gpudash.analysis.health.rule import HOST
from gpudash.analysis.health.rules import clocks, exited, holding, links, memory, reliability, state

FAMILIES = (state, clocks, reliability, memory, links, holding, exited)
"""The modules in which rules are declared."""

RULES = HOST.ranked()
RULES_BY_ID = HOST.rules
checks = HOST.checks
