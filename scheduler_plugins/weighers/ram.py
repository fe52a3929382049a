"""Weigher that prefers hosts with much unused memory."""

from __future__ import annotations

from conductor.core.host_state import Column, HostTable
from conductor.core.request_spec import RequestSpec
from conductor.core.weigher import Weigher


class RAMWeigher(Weigher):
    """Free physical memory. A negative multiplier fills hosts one after another."""

    name = "RAMWeigher"
    multiplier = 1.0
    multiplier_option = "ram_weight_multiplier"
    minval = 0.0

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Column:
        return hosts.unused_memory_mb
