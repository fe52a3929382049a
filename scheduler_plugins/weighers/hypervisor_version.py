"""Weigher that prefers hosts with a newer hypervisor."""

from __future__ import annotations

from conductor.core.host_state import Column, HostTable
from conductor.core.request_spec import RequestSpec
from conductor.core.weigher import Weigher


class HypervisorVersionWeigher(Weigher):
    """Hypervisor version as a number; 0 if the host doesn't report it."""

    name = "HypervisorVersionWeigher"
    multiplier_option = "hypervisor_version_weight_multiplier"

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Column:
        return hosts.factor("hypervisor_version").numbers
