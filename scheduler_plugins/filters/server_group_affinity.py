"""Is the host where the other members of the request's group are?"""

from __future__ import annotations

import numpy as np

from conductor.core.filter import Filter
from conductor.core.host_state import HostState, HostTable, Mask
from conductor.core.request_spec import RequestSpec
from conductor.core.verdict import PASS, Verdict, reject

POLICY = "affinity"


class ServerGroupAffinityFilter(Filter):
    """With policy affinity, keep only the hosts of the members that there are; the first member may go anywhere."""

    name = "ServerGroupAffinityFilter"

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        together = _hosts(spec)
        return hosts.mask_of(together) if together else np.ones(len(hosts), np.bool_)

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        together = _hosts(spec)
        if not together or host.host in together:
            return PASS
        return reject("the server group keeps its members together", need=", ".join(sorted(together)), have=host.host)


def _hosts(spec: RequestSpec) -> set[str]:
    if spec.group is None or spec.group.policy != POLICY:
        return set()
    return {host for host in spec.group.member_hosts.values() if host}
