"""What all views of the Compute API share."""

from __future__ import annotations

from collections.abc import Iterable

from conductor.core.errors import Invalid
from portal.api.base import ApiView
from portal.api.compute.microversions import VERSIONS
from portal.api.compute.policies import RULES

# Sent by every client on its way, and meaning nothing here.
ALWAYS_KNOWN = frozenset({"limit", "marker"})


class ComputeView(ApiView):
    """Base view: faults as compute spells them, its rules and its versions."""

    service = "compute"
    policies = RULES
    versions = VERSIONS

    def allow(self, rule: str, *, target_project_id: str | None = None, target_user_id: str | None = None) -> None:
        """`authorize` with the prefix that all rules of this API have."""
        self.authorize(f"os_compute_api:{rule}", target_project_id=target_project_id, target_user_id=target_user_id)

    def allows(self, rule: str, *, target_project_id: str | None = None) -> bool:
        """`may` with the prefix that all rules of this API have."""
        return self.may(f"os_compute_api:{rule}", target_project_id=target_project_id)

    def refuse_unknown_query(self, known: Iterable[str], *, since: str = "2.75") -> None:
        """Raises Invalid for a query parameter that is not `known`; older versions ignore it."""
        if not self.request.microversion.covers(since):
            return
        unknown = sorted(set(self.request.query_params) - set(known) - ALWAYS_KNOWN)
        if unknown:
            raise Invalid(
                f"Invalid input for query parameters {', '.join(name[:60] for name in unknown)}. "
                "Additional properties are not allowed.",
                field=unknown[0][:60],
            )
