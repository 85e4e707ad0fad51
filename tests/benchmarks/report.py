"""Figures, ratios and bounds as lines for people."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Figures = dict[str, float]
Runs = Mapping[str, Sequence[Figures]]


@dataclass
class Report:
    """Prints as it goes and remembers what did not hold."""

    failed: list[str] = field(default_factory=list)
    figures: dict[str, object] = field(default_factory=dict)

    def table(self, title: str, runs: Runs) -> None:
        """Print the medians of each command's figures."""
        self.figures[title] = runs
        print(f"\n{title}")
        metrics = list(next(iter(runs.values()))[0])
        width = max(map(len, runs))
        print(" " * width, *(f"{metric:>16}" for metric in metrics))
        for name, rounds in runs.items():
            medians = (
                statistics.median(figures[metric] for figures in rounds) for metric in metrics
            )
            print(f"{name:<{width}}", *(f"{median:16.1f}" for median in medians))

    def ratio(self, runs: Runs, metric: str, name: str, other: str, limit: float) -> None:
        """Judge the median over rounds of one command's figure by another's of the same round."""
        pairs = zip(runs[name], runs[other], strict=True)
        ratio = statistics.median(mine[metric] / theirs[metric] for mine, theirs in pairs)
        self.bound(f"{metric}: {name} / {other}", ratio, limit, "x")

    def bound(self, what: str, value: float, limit: float, unit: str) -> None:
        """Print a figure beside the highest that is allowed."""
        holds = value <= limit
        if not holds:
            self.failed.append(what)
        self.figures[what] = {"value": value, "limit": limit}
        print(f"{'ok  ' if holds else 'FAIL'} {what}: {value:.3f} {unit} (at most {limit:g})")
