"""Multipliers of weighers: the operator's, and those of aggregates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from conductor.core.host_state import Column, HostState, HostTable
from conductor.core.scheduling.aggregate_metadata import least
from conductor.core.weigher import Weigher


@dataclass(frozen=True)
class Multipliers:
    """The operator's factors by option name; they override the weighers' defaults."""

    options: Mapping[str, float] = field(default_factory=dict)

    def of(self, weigher: Weigher, hosts: HostTable) -> float | Column:
        """Return the factor, or a column with one factor per row where aggregates set it.

        Of several aggregates the least value counts. If one is not a number, the operator's factor stays.
        """
        base = self.general(weigher)
        option = weigher.multiplier_option
        return self._by_aggregate(weigher, hosts, base) if option in options_of(hosts) else base

    def _by_aggregate(self, weigher: Weigher, hosts: HostTable, base: float) -> float | Column:
        option = weigher.multiplier_option
        factor = hosts.factor(f"multiplier:{option}", lambda state: least(state.aggregate_metadata, option, float))
        if factor.values in ((None,), ()):
            return base
        sign = -1.0 if weigher.counts_against else 1.0
        by_value = np.array([base if value is None else sign * value for value in factor.values], np.float64)
        column: Column = by_value[factor.codes]
        return column

    def asks(self, weigher: Weigher) -> bool:
        """Whether the weigher runs. An expensive one does not run where the operator's factor is 0."""
        return weigher.asked_at_zero or self.general(weigher) != 0.0

    def general(self, weigher: Weigher) -> float:
        """Return the factor of hosts whose aggregates set none."""
        factor = float(self.options.get(weigher.multiplier_option, weigher.multiplier))
        return -factor if weigher.counts_against else factor


def options_of(hosts: HostTable) -> frozenset[str]:
    """Return the options that aggregates set."""
    return hosts.factor("aggregate_keys", _keys).union


def _keys(state: HostState) -> frozenset[str]:
    return frozenset(state.aggregate_metadata)
