"""Does the host hold few enough members of the request's group?"""

from __future__ import annotations

from collections import Counter

import numpy as np

from conductor.core.filter import Filter
from conductor.core.host_state import HostState, HostTable, Mask
from conductor.core.request_spec import GroupSpec, RequestSpec
from conductor.core.verdict import PASS, Verdict, reject

POLICY = "anti-affinity"


class ServerGroupAntiAffinityFilter(Filter):
    """With policy anti-affinity, keep hosts with fewer members than `max_server_per_host` (1 if not set)."""

    name = "ServerGroupAntiAffinityFilter"

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        if spec.group is None or spec.group.policy != POLICY:
            return np.ones(len(hosts), np.bool_)
        most = most_per_host(spec.group)
        return ~hosts.mask_of([host for host, count in members_by_host(spec.group).items() if count >= most])

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        if spec.group is None or spec.group.policy != POLICY:
            return PASS
        count, most = members_by_host(spec.group)[host.host], most_per_host(spec.group)
        if count < most:
            return PASS
        return reject(
            "the server group keeps its members apart", need=f"at most {most} on a host", have=f"{count} here"
        )


def members_by_host(group: GroupSpec) -> Counter[str]:
    return Counter(host for host in group.member_hosts.values() if host)


def most_per_host(group: GroupSpec) -> int:
    return int(group.rules.get("max_server_per_host", 1))
