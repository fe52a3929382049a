"""Weighers that prefer hosts near to, or far from, the members of the request's group."""

from __future__ import annotations

from collections import Counter

import numpy as np

from conductor.core.host_state import Column, HostTable
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.group_rules import SOFT_AFFINITY, SOFT_ANTI_AFFINITY, STAYING, members_by_host
from conductor.core.weigher import Weigher


class ServerGroupSoftAffinityWeigher(Weigher):
    """With policy soft-affinity, prefer hosts with more members of the group."""

    name = "ServerGroupSoftAffinityWeigher"
    multiplier_option = "soft_affinity_weight_multiplier"

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Column:
        return _members(hosts, spec, SOFT_AFFINITY, sign=1.0)


class ServerGroupSoftAntiAffinityWeigher(Weigher):
    """With policy soft-anti-affinity, prefer hosts with fewer members of the group."""

    name = "ServerGroupSoftAntiAffinityWeigher"
    multiplier_option = "soft_anti_affinity_weight_multiplier"

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Column:
        return _members(hosts, spec, SOFT_ANTI_AFFINITY, sign=-1.0)


def _members(hosts: HostTable, spec: RequestSpec, policy: str, *, sign: float) -> Column:
    """Return members per host times `sign`; zeros for groups of another policy."""
    members = members_by_host(spec.group, policy)
    own, group = spec.instance_uuid, spec.group
    if group is not None and group.policy == policy and group.member_hosts.keys().isdisjoint((own, STAYING + own)):
        at = spec.instance_hosts.get(own)
        members = members + Counter([at] if at else ())  # an instance that moves counts on its current host
    if not members:
        return hosts.zeros
    counts = np.zeros(len(hosts), np.float64)
    for host, count in members.items():
        counts[hosts.rows_of([host])] = sign * count
    return counts
