"""Filter by the flavors that the host's aggregates accept."""

from __future__ import annotations

from conductor.core.filter import Filter
from conductor.core.host_state import HostState, HostTable, Mask
from conductor.core.messages import message
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.aggregate_metadata import words
from conductor.core.verdict import PASS, Verdict, reject

KEY = "instance_type"


class AggregateTypeAffinityFilter(Filter):
    """Drop hosts in aggregates with instance_type metadata that doesn't list the flavor."""

    name = "AggregateTypeAffinityFilter"
    runs_once_per_request = True
    is_on_by_default = False

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        factor = hosts.factor(f"aggregates:{KEY}", _flavors)
        return factor.mask(lambda flavors: not flavors or spec.flavor.name in flavors)

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        flavors = _flavors(host)
        if not flavors or spec.flavor.name in flavors:
            return PASS
        return reject(message("reject.other_flavors"), need=spec.flavor.name, have=", ".join(sorted(flavors)))


def _flavors(host: HostState) -> frozenset[str]:
    return words(host.aggregate_metadata.get(KEY, frozenset()))
