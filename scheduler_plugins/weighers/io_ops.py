"""Weigher that prefers hosts with few builds and moves."""

from __future__ import annotations

from conductor.core.host_state import Column, HostTable
from conductor.core.request_spec import RequestSpec
from conductor.core.weigher import Weigher


class IoOpsWeigher(Weigher):
    """Instances being built, moved or copied on the host. A negative multiplier prefers idle hosts."""

    name = "IoOpsWeigher"
    multiplier = -1.0
    multiplier_option = "io_ops_weight_multiplier"
    minval = 0.0

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Column:
        return hosts.num_io_ops
