"""Prefer hosts near to, or far from, the members of the request's group."""

from __future__ import annotations

import numpy as np

from conductor.core.host_state import Column, HostTable
from conductor.core.request_spec import RequestSpec
from conductor.core.weigher import Weigher


class ServerGroupSoftAffinityWeigher(Weigher):
    """With policy soft-affinity, the more members on a host the better."""

    name = "ServerGroupSoftAffinityWeigher"
    multiplier_option = "soft_affinity_weight_multiplier"

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Column:
        return _members(hosts, spec, "soft-affinity")


class ServerGroupSoftAntiAffinityWeigher(Weigher):
    """With policy soft-anti-affinity, the fewer members on a host the better."""

    name = "ServerGroupSoftAntiAffinityWeigher"
    multiplier_option = "soft_anti_affinity_weight_multiplier"

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Column:
        return -_members(hosts, spec, "soft-anti-affinity")


def _members(hosts: HostTable, spec: RequestSpec, policy: str) -> Column:
    """Members per host; nothing but zeros for groups of another policy."""
    counts = np.zeros(len(hosts), np.float64)
    if spec.group is not None and spec.group.policy == policy:
        for host in spec.group.member_hosts.values():
            if host:
                counts[hosts.rows_of([host])] += 1
    return counts
