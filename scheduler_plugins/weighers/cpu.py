"""Weigher that prefers hosts with many free vCPUs."""

from __future__ import annotations

from conductor.core.host_state import Column, HostTable
from conductor.core.request_spec import RequestSpec
from conductor.core.weigher import Weigher


class CPUWeigher(Weigher):
    """Free vCPUs, including overcommit."""

    name = "CPUWeigher"
    multiplier = 1.0
    multiplier_option = "cpu_weight_multiplier"
    minval = 0.0

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Column:
        return hosts.unused_vcpus
