"""Weigher that prefers hosts with much unused disk."""

from __future__ import annotations

from conductor.core.host_state import Column, HostTable
from conductor.core.request_spec import RequestSpec
from conductor.core.weigher import Weigher


class DiskWeigher(Weigher):
    """Free physical disk, or the amount that the hypervisor reports if that is less."""

    name = "DiskWeigher"
    multiplier = 1.0
    multiplier_option = "disk_weight_multiplier"
    minval = 0.0

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Column:
        return hosts.unused_disk_mb
