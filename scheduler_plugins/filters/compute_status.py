"""Is the host up, and open to new instances?"""

from __future__ import annotations

from conductor.core.filter import Filter
from conductor.core.host_state import HostState, HostTable, Mask
from conductor.core.request_spec import RequestSpec
from conductor.core.verdict import PASS, Verdict, reject


class ComputeFilter(Filter):
    """Drop hosts whose compute service is silent or disabled."""

    name = "ComputeFilter"
    runs_once_per_request = True

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        return hosts.is_up > hosts.is_disabled  # up and not disabled, in one look

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        if host.is_disabled:
            return reject(
                "the host is closed to new instances", need="enabled", have=host.disabled_reason or "disabled"
            )
        if not host.is_up:
            return reject("the host is down", need="up", have="down")
        return PASS
