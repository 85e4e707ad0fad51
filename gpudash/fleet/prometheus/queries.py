"""The questions in PromQL, made of the metrics and labels that a server has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gpudash.analysis.activity import IDLE_PERCENT, NOTABLE_BYTES
from gpudash.fleet.prometheus.dialects import (
    ENGINE,
    INSTANCE_LABEL,
    MEMORY,
    MEMORY_REST,
    MEMORY_TOTAL,
    POWER,
    TEMPERATURE,
    UTILIZATION,
    XID_LABEL,
    XIDS,
    Dialect,
    LabelChoice,
    dialects,
)

_NAMES = (
    "DCGM_FI_(DEV|PROF)_.+|nvidia_smi_.+|gpu_.+_(Percentage|MiB|MHz|W|C)|"
    "process_gpu_memory_MiB|gpudash_.+"
)
NAMES_SELECTOR = f'{{__name__=~"{_NAMES}"}}'
"""Selects everything that may be understood."""

_INSTANCES = f'{INSTANCE_LABEL}!=""'
_BY_INSTANCE = ("dcgm-exporter", "gpudash")


class HostMatcher(NamedTuple):
    """Hosts that one label names."""

    label: str
    values: Sequence[str]
    cluster: str | None

    def text(self, cluster_label: str | None) -> str:
        """Return the matchers of their series."""
        names = matcher(self.label, self.values)
        if self.cluster is None or cluster_label is None:
            return names
        return f"{names}, {matcher(cluster_label, [self.cluster])}"


class _Arm(NamedTuple):
    """Series by which the devices of a dialect are known."""

    selector: str
    busy: float
    """The value from which on one computes; 0 where that does not follow from it."""


class Layout(NamedTuple):
    """Which of the known metrics there are, and which labels they have."""

    names: frozenset[str]
    choices: Mapping[str, LabelChoice] = {}
    """By dialect, of those of which there are series."""
    jobs: frozenset[str] = frozenset()
    """The values of the label `job` of all exporters."""

    @property
    def found(self) -> tuple[Dialect, ...]:
        """Return the dialects that this server has metrics of."""
        return tuple(dialect for dialect in dialects() if self._main(dialect))

    def identity(self) -> str | None:
        """Ask for one series a device with all of its labels, None if there is nothing to ask."""
        arms = []
        for dialect in self.found:
            arms += [arm.selector for arm in self._main(dialect)]
            if dialect.identity in self.names:
                arms.append(dialect.identity or "")
        return _or(arms)

    def main(self) -> str | None:
        """Ask for the utilization of each device; where there is none, for that it exists."""
        return _or(
            _max(self._by(dialect), arm.selector)
            for dialect in self._chosen()
            for arm in self._main(dialect)
        )

    def field(self, field: str) -> str | None:
        """Ask for one field of each device."""
        return _or(self._field_arms(field))

    def recent_xids(self) -> str | None:
        """Ask for last XID errors that are not 0, and for the times of those of the last hour."""
        arms = [f"{arm} != 0" for arm in self._field_arms(XIDS)]
        for dialect in self._chosen():
            if dialect.recent_xids in self.names:
                by = f"{self._by(dialect)}, {XID_LABEL}"
                arms.append(f"{_max(by, dialect.recent_xids or '')} > time() - 3600")
        return _or(arms)

    def total(self) -> str | None:
        """Ask for the memory of each device: DCGM up to 4.8 has it in three parts by default."""
        arms = list(self._field_arms(MEMORY_TOTAL))
        for dialect in self._chosen():
            by = self._by(dialect, with_name=False)
            parts = zip(*(dialect.of(field) for field in (MEMORY, *MEMORY_REST)), strict=False)
            for used, *rest in parts:
                known = [each.name for each in (used, *rest) if each.name in self.names]
                if len(known) > 1 and used.name in known and rest[0].name in known:
                    whole = " + ".join(_max(by, name) for name in known)
                    arms.append(f"({whole}) * {used.factor:.17g}")
        return _or(arms)

    def last_xids(self) -> str | None:
        """Ask for last XID errors that are not 0."""
        return _or(f"{arm} != 0" for arm in self._field_arms(XIDS))

    def idle(self, span: str, step: str = "") -> str | None:
        """Ask for devices that have not computed for a span such as `5m`, looked at in steps."""
        return _or(
            f"({self._over('max', dialect, arm.selector, span, step)} < {arm.busy:g} "
            f"and {self._past(dialect, arm.selector, span)} < {arm.busy:g})"
            for dialect in self._chosen()
            for arm in self._main(dialect)
            if arm.busy
        )

    def held(self, span: str, step: str = "") -> str | None:
        """Ask for devices that do not compute, whose memory was held all of a span."""
        arms = []
        for dialect in self._chosen():
            by = self._by(dialect, with_name=False)
            idle = _or(
                f"{_max(by, arm.selector)} < {arm.busy:g}"
                for arm in self._main(dialect)
                if arm.busy
            )
            for series in dialect.of(MEMORY):
                if idle is not None and series.name in self.names:
                    above = f">= {NOTABLE_BYTES / series.factor:g}"
                    over = self._over("min", dialect, series.name, span, step)
                    past = self._past(dialect, series.name, span)
                    arms.append(f"({over} {above} and ({idle}) and {past} {above})")
        return _or(arms)

    def frozen(self) -> str | None:
        """Ask for hosts whose power draw has not changed at all in ten minutes."""
        return _or(
            f"(max by ({self._host_by(dialect)}) (changes({name}[10m])) == 0 "
            f"and max by ({self._host_by(dialect)}) ({name} offset 10m) > 0)"
            for dialect in self._chosen()
            for name in self._present(dialect, POWER)
        )

    def last_seen(self, span: str, step: str) -> str | None:
        """Ask for the time of the newest sample of each device in a span, looked at in steps."""
        return _or(
            self._over("max", dialect, f"timestamp({arm.selector})", span, step)
            for dialect in self._chosen()
            for arm in self._main(dialect)
        )

    def ages(self) -> str | None:
        """Ask for the time of the newest sample of each host."""
        return _or(
            f"max by ({self._host_by(dialect)}) (timestamp({arm.selector}))"
            for dialect in self._chosen()
            for arm in self._main(dialect)
        )

    def down(self) -> str | None:
        """Ask for exporters that cannot be scraped."""
        return f"up{{{matcher('job', sorted(self.jobs))}}} == 0" if self.jobs else None

    def users(self) -> str | None:
        """Ask who has processes on which device."""
        return _or(
            f"count by ({self._by(dialect)}, {dialect.users[1]}) ({dialect.users[0]})"
            for dialect in self._chosen()
            if dialect.users is not None and dialect.users[0] in self.names
        )

    def chart(
        self, field: str, hosts: Sequence[HostMatcher], *, by_device: bool, has_percent: bool
    ) -> str | None:
        """Ask for a field of each device, or of each host on average; without hosts, of all.

        `has_percent` is for series of ratios that are none.
        """
        arms = []
        for dialect in self._chosen():
            choice, by = self.choices[dialect.name], self._by(dialect, with_name=False)
            of_hosts = [each for each in hosts if each.label in choice.hosts]
            selections = [f"{{{each.text(choice.cluster)}}}" for each in of_hosts]
            for series in dialect.of(field) + (dialect.of(ENGINE) if field == UTILIZATION else ()):
                if series.name in self.names:
                    factor = 1 if has_percent and series.is_ratio else series.factor
                    for selection in selections if hosts else [""]:
                        arm = f"{_max(by, series.name + selection)} * {factor:.17g}"
                        is_mean = hosts and not by_device
                        arms.append(
                            f"avg by ({self._host_by(dialect)}) ({arm})" if is_mean else arm
                        )
        whole = _or(arms)
        return whole if hosts or whole is None else f"avg({whole})"

    def _chosen(self) -> Iterable[Dialect]:
        return (dialect for dialect in dialects() if dialect.name in self.choices)

    def _main(self, dialect: Dialect) -> list[_Arm]:
        """Return what exists of every device: its utilization, else whatever there is."""
        used, engine = self._arms(dialect, UTILIZATION), self._arms(dialect, ENGINE)
        if used:
            by_instance = dialect.name in _BY_INSTANCE
            matcher = f"{{{_INSTANCES}}}"
            return used + [_Arm(arm.selector + matcher, arm.busy) for arm in engine if by_instance]
        for field in (MEMORY, TEMPERATURE, POWER):
            engine = engine or [_Arm(name, 0) for name in self._present(dialect, field)]
        return engine

    def _arms(self, dialect: Dialect, field: str) -> list[_Arm]:
        present = (each for each in dialect.of(field) if each.name in self.names)
        return [_Arm(each.name, IDLE_PERCENT / each.factor) for each in present]

    def _present(self, dialect: Dialect, field: str) -> list[str]:
        return [each.name for each in dialect.of(field) if each.name in self.names]

    def _field_arms(self, field: str) -> Iterable[str]:
        for dialect in self._chosen():
            for name in self._present(dialect, field):
                yield _max(self._by(dialect), name)

    def _over(self, function: str, dialect: Dialect, selector: str, span: str, step: str) -> str:
        """Return a function over the time of a series; with a step by a cheaper subquery."""
        by = self._by(dialect, with_name=False)
        if step:
            return f"{function}_over_time(({_max(by, selector)})[{span}:{step}])"
        return f"{function} by ({by}) ({function}_over_time({selector}[{span}]))"

    def _past(self, dialect: Dialect, selector: str, span: str) -> str:
        """Return a series at the start of a span: a shorter one proves nothing about all of it."""
        return _max(self._by(dialect, with_name=False), f"{selector} offset {span}")

    def _by(self, dialect: Dialect, *, with_name: bool = True) -> str:
        choice = self.choices[dialect.name]
        labels = ["__name__"] if with_name else []
        labels += [self._host_by(dialect), dialect.device_label]
        return ", ".join(labels + [INSTANCE_LABEL] * choice.has_instances)

    def _host_by(self, dialect: Dialect) -> str:
        choice = self.choices[dialect.name]
        return ", ".join(filter(None, (*choice.hosts, choice.cluster)))


def matcher(label: str, values: Iterable[str]) -> str:
    """Return `label=~"a|b"` for exactly these values, whatever characters they have."""
    texts = [_quoted(_literal(value)) for value in values]
    return f'{label}=~"{"|".join(texts)}"'


def _literal(text: str) -> str:
    """Return text as a regular expression of RE2 that matches nothing else."""
    return "".join(f"\\{char}" if char in "\\.+*?()|[]{}^$" else char for char in text)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _max(by: str, selector: str) -> str:
    """Return one value a device: time slicing and several jobs give it more than one series."""
    return f"max by ({by}) ({selector})"


def _or(arms: Iterable[str]) -> str | None:
    return " or ".join(arms) or None
