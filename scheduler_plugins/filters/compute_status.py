"""Filter by the state of the host's compute service."""

from __future__ import annotations

from conductor.core.filter import Filter
from conductor.core.host_state import HostState, HostTable, Mask
from conductor.core.messages import message, word
from conductor.core.request_spec import RequestSpec
from conductor.core.verdict import PASS, Verdict, reject


class ComputeFilter(Filter):
    """Drop hosts whose compute service is down or disabled."""

    name = "ComputeFilter"
    runs_once_per_request = True

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        return hosts.is_up > hosts.is_disabled  # up and not disabled, in one operation

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        if host.is_disabled:
            return reject(
                message("reject.disabled"), need=word("enabled"), have=host.disabled_reason or word("disabled")
            )
        if not host.is_up:
            return reject(message("reject.down"), need=word("up"), have=word("down"))
        return PASS
