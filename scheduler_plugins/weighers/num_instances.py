"""Weigher that prefers hosts with few instances, or with many."""

from __future__ import annotations

from conductor.core.host_state import Column, HostTable
from conductor.core.request_spec import RequestSpec
from conductor.core.weigher import Weigher


class NumInstancesWeigher(Weigher):
    """Number of instances on the host. Off by default; a negative multiplier spreads instances."""

    name = "NumInstancesWeigher"
    multiplier = 0.0
    multiplier_option = "num_instances_weight_multiplier"

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Column:
        return hosts.num_instances
