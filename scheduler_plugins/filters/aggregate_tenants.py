"""Filter by the projects that the host's aggregates accept."""

from __future__ import annotations

from conductor.core.filter import Filter
from conductor.core.host_state import HostState, HostTable, Mask
from conductor.core.messages import message
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.aggregate_metadata import words
from conductor.core.verdict import PASS, Verdict, reject

KEY = "filter_tenant_id"


class AggregateMultiTenancyIsolation(Filter):
    """Drop hosts in aggregates with filter_tenant_id metadata that doesn't list the project."""

    name = "AggregateMultiTenancyIsolation"
    runs_once_per_request = True
    is_on_by_default = False

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        factor = hosts.factor("projects", _projects)
        return factor.mask(lambda projects: not projects or spec.project_id in projects)

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        projects = _projects(host)
        if not projects or spec.project_id in projects:
            return PASS
        return reject(message("reject.other_projects"), need=spec.project_id, have=", ".join(sorted(projects)))


def _projects(host: HostState) -> frozenset[str]:
    found = (words(values) for key, values in host.aggregate_metadata.items() if key.startswith(KEY))
    return frozenset().union(*found)
