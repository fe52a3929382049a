"""Does the host hold few enough members of the request's group?"""

from __future__ import annotations

from conductor.core.filter import Filter
from conductor.core.host_state import HostState, HostTable, Mask
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.group_rules import ANTI_AFFINITY, members_by_host, most_per_host
from conductor.core.verdict import PASS, Verdict, reject


class ServerGroupAntiAffinityFilter(Filter):
    """With policy anti-affinity, keep hosts with fewer members than `max_server_per_host` (1 if not set)."""

    name = "ServerGroupAntiAffinityFilter"

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        members = members_by_host(spec.group, ANTI_AFFINITY)
        if not members:
            return hosts.everyone
        most = most_per_host(spec.group)
        return ~hosts.mask_of([host for host, count in members.items() if count >= most])

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        most = most_per_host(spec.group)
        count = members_by_host(spec.group, ANTI_AFFINITY)[host.host]
        if not count or count < most:
            return PASS
        return reject(
            "the server group keeps its members apart", need=f"at most {most} on a host", have=f"{count} here"
        )
