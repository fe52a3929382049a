"""Weigh hosts: normalise each weigher's raw numbers over the candidates, multiply, add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from conductor.core.host_state import Column, HostTable
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.filtering import Nonsense, PluginFault, Rows, describe
from conductor.core.weigher import Weigher


@dataclass(frozen=True)
class Part:
    """One weigher's say, one number per candidate; `multiplier` is a number, or a column where aggregates differ."""

    weigher: str
    raw: Column
    normalized: Column
    multiplier: float | Column


@dataclass(frozen=True)
class Weighing:
    """The candidates' rows, their total weights, and the parts. A lone candidate is not weighed: no parts."""

    rows: Rows
    totals: Column
    parts: tuple[Part, ...] = ()
    faults: tuple[PluginFault, ...] = ()


@dataclass(frozen=True)
class Multipliers:
    """The operator's factors by option name, over the weighers' own defaults."""

    options: Mapping[str, float] = field(default_factory=dict)

    def of(self, weigher: Weigher, hosts: HostTable, rows: Rows) -> float | Column:
        """The factor for the candidates: of several aggregates that name one, the least counts."""
        option = weigher.multiplier_option
        base = float(self.options.get(option, weigher.multiplier))
        if not option:
            return base
        factor = hosts.factor(f"multiplier:{option}", lambda state: _least(state.aggregate_metadata, option))
        if factor.values in ((None,), ()):
            return base
        by_value = np.array([base if value is None else value for value in factor.values], np.float64)
        return by_value[factor.codes[rows]]


def weigh(
    hosts: HostTable, spec: RequestSpec, weighers: Sequence[Weigher], *, multipliers: Multipliers, rows: Rows
) -> Weighing:
    """Total weight of the hosts in `rows`. A weigher that fails has no say, and is named."""
    totals = np.zeros(len(rows), np.float64)
    if len(rows) < 2:
        return Weighing(rows, totals)
    takes_all = len(rows) == len(hosts)
    parts: list[Part] = []
    faults: list[PluginFault] = []
    for one in weighers:
        try:
            column = _checked(one.weigh(hosts, spec), len(hosts))
            raw, normalized = normalize(column if takes_all else column[rows], one.minval, one.maxval)
        except Exception as error:
            faults.append(PluginFault("weigher", one.name, len(rows), describe(error), "left out", error))
            continue
        part = Part(one.name, raw, normalized, multipliers.of(one, hosts, rows))
        totals += part.normalized * part.multiplier
        parts.append(part)
    return Weighing(rows, totals, tuple(parts), tuple(faults))


def normalize(raw: Column, minval: float | None = None, maxval: float | None = None) -> tuple[Column, Column]:
    """Raw numbers held within the given ends, and the same as shares of the way from the low to the high end.

    An end that is not given is that of the numbers. Where both ends are the same there is nothing to tell apart: 0.
    Raises Nonsense for numbers that are not finite.
    """
    low, high = float(raw.min()), float(raw.max())
    if not (np.isfinite(low) and np.isfinite(high)):
        raise Nonsense("a weight is not finite")
    if (minval is not None and low < minval) or (maxval is not None and high > maxval):
        raw = np.clip(raw, minval, maxval)
        low, high = float(raw.min()), float(raw.max())
    low = low if minval is None else float(minval)
    high = high if maxval is None else float(maxval)
    if low == high:
        return raw, np.zeros(len(raw), np.float64)
    return raw, (raw - low) / (high - low)


def _checked(column: Column, count: int) -> Column:
    if not isinstance(column, np.ndarray) or column.shape != (count,) or column.dtype.kind not in "fiub":
        raise Nonsense(f"column of {count} numbers expected")
    return column


def _least(metadata: Mapping[str, frozenset[str]], option: str) -> float | None:
    numbers = []
    for text in metadata.get(option, ()):
        try:
            numbers.append(float(text))
        except ValueError:
            continue  # a word in place of a number changes nothing
    return min((number for number in numbers if np.isfinite(number)), default=None)
