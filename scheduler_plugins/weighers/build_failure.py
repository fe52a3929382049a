"""Weigher that avoids hosts with recent build failures."""

from __future__ import annotations

from conductor.core.host_state import Column, HostTable
from conductor.core.request_spec import RequestSpec
from conductor.core.weigher import Weigher


class BuildFailureWeigher(Weigher):
    """Number of failed builds on the host since the last success; outweighs all other weighers."""

    name = "BuildFailureWeigher"
    multiplier = 1_000_000.0
    multiplier_option = "build_failure_weight_multiplier"
    counts_against = True

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Column:
        return hosts.factor("failed_builds").numbers
