"""The operator's factors of weighers, and what aggregates say of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from conductor.core.host_state import Column, HostState, HostTable
from conductor.core.scheduling.aggregate_metadata import least
from conductor.core.weigher import Weigher


@dataclass(frozen=True)
class Multipliers:
    """The operator's factors by option name, over the weighers' own defaults."""

    options: Mapping[str, float] = field(default_factory=dict)

    def of(self, weigher: Weigher, hosts: HostTable) -> float | Column:
        """The factor, or one per row: of several aggregates that name one, the least counts. One that is no number
        leaves the host with the operator's factor."""
        base = self.general(weigher)
        option = weigher.multiplier_option
        return self._by_aggregate(weigher, hosts, base) if option in said_of(hosts) else base

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
        """Whether the weigher is asked at all: one that costs much is not where the operator's factor is 0."""
        return weigher.asked_at_zero or self.general(weigher) != 0.0

    def general(self, weigher: Weigher) -> float:
        """The factor of hosts whose aggregates do not say otherwise."""
        factor = float(self.options.get(weigher.multiplier_option, weigher.multiplier))
        return -factor if weigher.counts_against else factor


def said_of(hosts: HostTable) -> frozenset[str]:
    """What aggregates say anything of."""
    return hosts.factor("aggregate_keys", _keys).union


def _keys(state: HostState) -> frozenset[str]:
    return frozenset(state.aggregate_metadata)
