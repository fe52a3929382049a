"""Filter that places instances with named ones."""

from __future__ import annotations

from conductor.core.filter import Filter
from conductor.core.host_state import HostState, HostTable, Mask
from conductor.core.messages import message
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.hints import words_of
from conductor.core.verdict import PASS, Verdict, reject

HINT = "same_host"


class SameHostFilter(Filter):
    """With the hint same_host, keep hosts that run at least one of the listed instances."""

    name = "SameHostFilter"
    runs_once_per_request = True

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        if not words_of(spec, HINT):
            return hosts.everyone
        return hosts.mask_of(_hosts(spec))

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        if not words_of(spec, HINT) or host.host in _hosts(spec):
            return PASS
        return reject(message("reject.not_near"), need=", ".join(sorted(_hosts(spec))), have=host.host)


def _hosts(spec: RequestSpec) -> set[str]:
    named = (spec.instance_hosts.get(uuid, "") for uuid in words_of(spec, HINT))
    return {host for host in named if host}
