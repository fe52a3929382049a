"""Filter by the anti-affinity policy of the request's group."""

from __future__ import annotations

from conductor.core.filter import Filter
from conductor.core.host_state import HostState, HostTable, Mask
from conductor.core.messages import message
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.group_rules import ANTI_AFFINITY, members_by_host, most_per_host
from conductor.core.verdict import PASS, Verdict, reject


class ServerGroupAntiAffinityFilter(Filter):
    """With policy anti-affinity, keep hosts with fewer than max_server_per_host members (default 1).

    The instance's current host may keep it, regardless of other members there.
    """

    name = "ServerGroupAntiAffinityFilter"

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        members = members_by_host(spec.group, ANTI_AFFINITY)
        most = most_per_host(spec.group)
        full = [host for host, count in members.items() if count >= most and host != _own_host(spec)]
        if most <= 0 and spec.group is not None and spec.group.policy == ANTI_AFFINITY:
            return hosts.mask_of([_own_host(spec)])
        return ~hosts.mask_of(full) if full else hosts.everyone

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        if spec.group is None or spec.group.policy != ANTI_AFFINITY or host.host == _own_host(spec):
            return PASS
        most = most_per_host(spec.group)
        count = members_by_host(spec.group, ANTI_AFFINITY)[host.host]
        if count < most:
            return PASS
        return reject(
            message("reject.anti_affinity"),
            need=message("need.most_on_host", most=most),
            have=message("have.here", count=count),
        )


def _own_host(spec: RequestSpec) -> str:
    """Return the instance's current host; empty where it has none yet."""
    own = spec.instance_uuid
    if not own:
        return ""
    return spec.instance_hosts.get(own) or (spec.group.member_hosts.get(own, "") if spec.group else "")
