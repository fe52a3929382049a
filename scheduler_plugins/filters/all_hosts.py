"""Filter that accepts all hosts."""

from __future__ import annotations

from conductor.core.filter import Filter
from conductor.core.host_state import HostState, HostTable, Mask
from conductor.core.request_spec import RequestSpec
from conductor.core.verdict import PASS, Verdict


class AllHostsFilter(Filter):
    """Keep all hosts. Use it for an otherwise empty list of filters."""

    name = "AllHostsFilter"
    runs_once_per_request = True
    is_on_by_default = False

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        return hosts.everyone

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        return PASS
