"""Why gpudash sees what it sees: the driver, its surroundings and this installation, checked."""

from __future__ import annotations

from gpudash.doctor.check import Check, Verdict, worst

__all__ = ["Check", "Verdict", "worst"]
