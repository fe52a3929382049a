"""Weigher by the metrics that hosts report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from conductor.core.host_state import Column, Factor, HostState, HostTable, Mask
from conductor.core.metrics import RATIOS_SCHEMA, WEIGHT_SETTING, ratios
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.aggregate_metadata import least
from conductor.core.weigher import Weigher

MULTIPLIER = "metrics_weight_multiplier"  # the option's key in aggregate metadata


class MetricsWeigher(Weigher):
    """Sum of the metrics in weight_setting, each multiplied by its ratio.

    A host that lacks one of them ends the request where metrics are `required`; else it gets
    `weight_of_unavailable`, unless the metric's weight there is 0.
    """

    name = "MetricsWeigher"
    multiplier_option = MULTIPLIER
    options_schema = {
        "weight_multiplier": {
            "type": "number",
            "default": 1.0,
            "description": "Multiplier of the metrics. Aggregate metadata can override it.",
        },
        WEIGHT_SETTING: RATIOS_SCHEMA,
        "required": {
            "type": "boolean",
            "default": True,
            "description": "Fail scheduling if an eligible host lacks a metric.",
        },
        "weight_of_unavailable": {
            "type": "number",
            "default": -10000.0,
            "description": "Weight of a host that lacks a metric, if metrics aren't required.",
        },
    }

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        self.multiplier = float(self.options["weight_multiplier"])  # type: ignore[misc]
        self.must_know = bool(self.options["required"])

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Column:
        setting = ratios(self.options[WEIGHT_SETTING])
        if not setting:
            return hosts.zeros
        sums = np.zeros(len(hosts), np.float64)
        lacking = np.zeros(len(hosts), np.bool_)
        for name, ratio in setting:
            reported = hosts.factor(f"metric:{name}", _reported(name))
            sums += reported.numbers * ratio
            lacking |= self._missed(hosts, reported, ratio)
        sums[lacking] = np.nan if self.must_know else float(self.options["weight_of_unavailable"])
        return sums

    def _missed(self, hosts: HostTable, reported: Factor, ratio: float) -> Mask:
        """Return the hosts that lack this metric, where that matters."""
        lacking = reported.mask(lambda value: value is None)
        if self.must_know:
            return lacking
        observed = hosts.factor(
            f"multiplier:{MULTIPLIER}", lambda host: least(host.aggregate_metadata, MULTIPLIER, float)
        )
        return lacking & observed.mask(lambda value: bool(ratio * (self.multiplier if value is None else value)))


def _reported(name: str) -> Any:
    def of(host: HostState) -> float | None:
        return host.metrics.get(name)

    return of
