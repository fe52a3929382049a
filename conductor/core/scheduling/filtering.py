"""Run filters one after another over the hosts that are left, and keep who turned away whom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conductor.core.filter import Filter
from conductor.core.host_state import HostTable, Mask
from conductor.core.request_spec import RequestSpec
from conductor.core.verdict import Verdict

Rows = NDArray[np.intp]
Clock = Callable[[], float]


@dataclass(frozen=True)
class PluginFault:
    """A plugin that raised or answered nonsense about `count` hosts, and what was done instead."""

    kind: str
    plugin: str
    count: int
    error: str
    consequence: str
    exception: Exception | None = field(default=None, compare=False, repr=False)


class Nonsense(Exception):
    """A plugin's answer has the wrong type or shape."""


class Stage(NamedTuple):  # a dataclass that is frozen takes four times as long to make
    """One filter's turn: the hosts that came in and those that were left, as masks and as counts."""

    filter: Filter
    before: int
    after: int
    came: Mask
    left: Mask
    seconds: float = 0.0

    @property
    def rejected(self) -> int:
        return self.before - self.after

    @property
    def rejected_rows(self) -> Rows:
        return np.flatnonzero(self.came & ~self.left)


@dataclass(frozen=True)
class Filtering:
    """A whole turn of the pipeline: its stages in order, and which hosts are left."""

    stages: tuple[Stage, ...]
    passing: Mask
    faults: tuple[PluginFault, ...] = ()


@dataclass(frozen=True)
class Rules:
    """How filters run. A filter that fails turns hosts away, unless the operator named it in `fail_open`."""

    fail_open: frozenset[str] = frozenset()
    clock: Clock = field(default=lambda: 0.0)


def run_filters(hosts: HostTable, spec: RequestSpec, filters: Sequence[Filter], rules: Rules) -> Filtering:
    """Ask each filter, in order, about the hosts that all before it let pass."""
    everyone = passing = hosts.everyone
    stages: list[Stage] = []
    faults: list[PluginFault] = []
    before = len(hosts)
    for one in filters:
        began = rules.clock()
        left, after = passing, before
        if before:
            mask, found = ask(one, hosts, spec, passing=passing, rules=rules)
            faults += found
            if mask is not everyone and not mask.all():
                left = np.logical_and(passing, mask)
                after = int(np.count_nonzero(left))
        stages.append(Stage(one, before, after, passing, left, rules.clock() - began))
        passing, before = left, after
    return Filtering(tuple(stages), passing, tuple(faults))


def passes_all(
    hosts: HostTable, spec: RequestSpec, filters: Sequence[Filter], *, row: int, rules: Rules
) -> tuple[bool, Sequence[PluginFault]]:
    """Whether the host in `row` passes every filter, asked one host at a time."""
    faults: list[PluginFault] = []
    for one in filters:
        try:
            passes = bool(verdict_of(one, hosts, spec, row))
        except Exception as error:
            faults.append(_fault(one, 1, error, rules))
            passes = one.name in rules.fail_open
        if not passes:
            return False, faults
    return True, faults


def ask(
    one: Filter, hosts: HostTable, spec: RequestSpec, *, passing: Mask, rules: Rules
) -> tuple[Mask, Sequence[PluginFault]]:
    """One filter's mask over all rows; only the rows in `passing` mean anything. Never raises."""
    if type(one).mask is Filter.mask:
        return _ask_each(one, hosts, spec, passing=passing, rules=rules)
    try:
        mask = one.mask(hosts, spec)
        if mask is hosts.everyone:
            return mask, ()
        if not isinstance(mask, np.ndarray) or mask.shape != (len(hosts),) or mask.dtype != np.bool_:
            raise Nonsense(f"mask of {len(hosts)} bools expected")
    except Exception as error:
        count = int(np.count_nonzero(passing))
        opens = one.name in rules.fail_open
        return np.full(len(hosts), opens, np.bool_), [_fault(one, count, error, rules)] if count else []
    return mask, ()


def _ask_each(
    one: Filter, hosts: HostTable, spec: RequestSpec, *, passing: Mask, rules: Rules
) -> tuple[Mask, Sequence[PluginFault]]:
    mask = np.zeros(len(hosts), np.bool_)
    count = 0
    last: Exception | None = None
    for row in np.flatnonzero(passing):
        try:
            mask[row] = bool(verdict_of(one, hosts, spec, int(row)))
        except Exception as error:
            mask[row] = one.name in rules.fail_open
            count, last = count + 1, error
    return mask, [_fault(one, count, last, rules)] if last else []


def verdict_of(one: Filter, hosts: HostTable, spec: RequestSpec, row: int) -> Verdict:
    """One filter about one host. Raises what the filter raises, or Nonsense."""
    verdict: object = one.host_passes(hosts.states[row], spec)
    if isinstance(verdict, Verdict):
        return verdict
    if isinstance(verdict, bool | np.bool_):
        return Verdict(bool(verdict))
    raise Nonsense(f"Verdict expected, not {type(verdict).__name__}")


def _fault(one: Filter, count: int, error: Exception, rules: Rules) -> PluginFault:
    consequence = "let pass" if one.name in rules.fail_open else "turned away"
    return PluginFault("filter", one.name, count, describe(error), consequence, error)


def describe(error: Exception) -> str:
    """What to show of a foreign error: its kind. Its text may hold paths or secrets."""
    return str(error) if isinstance(error, Nonsense) else type(error).__name__
