"""Filter that keeps instances apart from named ones."""

from __future__ import annotations

from conductor.core.filter import Filter
from conductor.core.host_state import HostState, HostTable, Mask
from conductor.core.messages import message, word
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.hints import words_of
from conductor.core.verdict import PASS, Verdict, reject

HINT = "different_host"


class DifferentHostFilter(Filter):
    """With the hint different_host, drop hosts that run any of the listed instances."""

    name = "DifferentHostFilter"
    runs_once_per_request = True

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        taken = _hosts(spec)
        return ~hosts.mask_of(taken) if taken else hosts.everyone

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        if host.host in _hosts(spec):
            return reject(message("reject.not_away"), need=word("another host"), have=host.host)
        return PASS


def _hosts(spec: RequestSpec) -> set[str]:
    named = (spec.instance_hosts.get(uuid, "") for uuid in words_of(spec, HINT))
    return {host for host in named if host}
