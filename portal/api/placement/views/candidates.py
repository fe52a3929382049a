"""/allocation_candidates: the combinations of providers that can satisfy a request."""

from __future__ import annotations

from dataclasses import replace

from rest_framework.response import Response

from conductor.core.placement.candidates import Candidates, within_single_providers
from conductor.core.placement.query import CandidateQuery
from conductor.placement import candidates
from portal.api.base import ApiRequest
from portal.api.microversions import since
from portal.api.placement.known import refuse_unknown_classes, refuse_unknown_traits
from portal.api.placement.microversions import newest
from portal.api.placement.representations.candidates import NESTED, parse, show
from portal.api.placement.schemas.candidates import LIST
from portal.api.placement.view import PlacementView


class AllocationCandidates(PlacementView):
    """Candidates.

    Before 1.29 clients do not know trees, so candidates from several providers of one tree are left out.
    """

    @since("1.10")
    def get(self, request: ApiRequest) -> Response:
        self.allow("allocation_candidates:list")
        self.readable()
        self.query(newest(LIST, request.microversion))
        requested = parse(request.query_params, request.microversion)
        _refuse_unknown_names(requested)
        return self.answer(show(self._search(requested), requested, request.microversion))

    def _search(self, requested: CandidateQuery) -> Candidates:
        if self.covers(NESTED):
            return candidates.search(requested)
        found = within_single_providers(candidates.search(replace(requested, limit=None)))
        if requested.limit is None or len(found.requests) <= requested.limit:
            return found
        kept = found.requests[: requested.limit]
        used = {uuid for way in kept for uuid in way.resources_by_provider}
        return Candidates(kept, {uuid: node for uuid, node in found.summaries.items() if uuid in used})


def _refuse_unknown_names(requested: CandidateQuery) -> None:
    for suffix, group in requested.groups.items():
        refuse_unknown_classes(group.resources, f"resources{suffix}")
        refuse_unknown_traits(group.forbidden.union(*group.required), f"required{suffix}")
    refuse_unknown_traits(requested.root_required | requested.root_forbidden, "root_required")
