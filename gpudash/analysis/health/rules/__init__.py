"""The rules by family; importing this package declares them all."""

from __future__ import annotations

from typing import cast

from gpudash.analysis.health.rule import Check, Rule, declared_checks, declared_rules
from gpudash.analysis.health.rules import clocks, exited, holding, links, memory, reliability, state

FAMILIES = (state, clocks, reliability, memory, links, holding, exited)
"""The modules in which rules are declared."""

RULES: tuple[Rule, ...] = tuple(sorted(declared_rules.values(), key=lambda rule: rule.rank))
"""Every rule; of two findings of one level the earlier rule's matters more."""

RULES_BY_ID = {rule.id: rule for rule in RULES}


def checks() -> tuple[Check, ...]:
    """Return the checks for the samples of one host, with fresh instances of those with state."""
    return tuple(
        cast("Check", each() if isinstance(each, type) else each) for each in declared_checks
    )
