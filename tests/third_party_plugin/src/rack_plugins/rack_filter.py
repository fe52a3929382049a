"""Filter by the requested rack."""

from __future__ import annotations

from conductor.core.filter import Filter
from conductor.core.host_state import HostState
from conductor.core.request_spec import RequestSpec
from conductor.core.verdict import PASS, Verdict, reject


class RackFilter(Filter):
    """With the hint `rack`, keep the hosts whose capability `rack` is one of the named ones."""

    name = "RackFilter"
    runs_once_per_request = True

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        wanted = spec.scheduler_hints.get("rack", [])
        rack = str(host.capabilities.get("rack", "none"))
        if not wanted or rack in wanted:
            return PASS
        return reject("host is in another rack", need=" or ".join(wanted), have=rack)
