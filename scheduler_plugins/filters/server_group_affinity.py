"""Filter by the affinity policy of the request's group."""

from __future__ import annotations

from conductor.core.filter import Filter
from conductor.core.host_state import HostState, HostTable, Mask
from conductor.core.messages import message
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.group_rules import AFFINITY, members_by_host
from conductor.core.verdict import PASS, Verdict, reject


class ServerGroupAffinityFilter(Filter):
    """With policy affinity, keep the host of the group's members; the first member can go anywhere."""

    name = "ServerGroupAffinityFilter"

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        together = members_by_host(spec.group, AFFINITY)
        return hosts.mask_of(list(together)) if together else hosts.everyone

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        together = members_by_host(spec.group, AFFINITY)
        if not together or host.host in together:
            return PASS
        return reject(message("reject.affinity"), need=", ".join(sorted(together)), have=host.host)
