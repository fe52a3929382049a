"""Prefer hosts with a newer hypervisor."""

from __future__ import annotations

from conductor.core.host_state import Column, HostTable
from conductor.core.request_spec import RequestSpec
from conductor.core.weigher import Weigher


class HypervisorVersionWeigher(Weigher):
    """The version of the hypervisor as one number; 0 where the host does not say."""

    name = "HypervisorVersionWeigher"
    multiplier_option = "hypervisor_version_weight_multiplier"

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Column:
        return hosts.factor("hypervisor_version").numbers
