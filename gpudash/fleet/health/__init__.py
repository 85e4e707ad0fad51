"""What is wrong or wasteful on many hosts; importing this package declares the rules.

Each check examines a survey of one snapshot, as one of a host examines a sample.
"""

from __future__ import annotations

from gpudash.fleet.health import gpus, hosts, use
from gpudash.fleet.health.survey import FLEET

FAMILIES = (gpus, hosts, use)
"""The modules in which rules are declared."""

RULES = FLEET.ranked()
checks = FLEET.checks
