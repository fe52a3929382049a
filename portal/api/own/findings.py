"""What the reconciler found, read-only."""

from __future__ import annotations

from dataclasses import asdict

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.services import findings
from conductor.services.findings import FindingQuery
from portal.api.base import ApiRequest
from portal.api.own.view import OwnView, plain
from portal.api.pagination import next_links, parse_page

USUAL_LIMIT = 100
FILTERS = frozenset({"state", "kind", "severity", "cell", "instance_uuid"})
KNOWN = FILTERS | {"limit", "marker"}


class Findings(OwnView):
    def get(self, request: ApiRequest) -> Response:
        """Newest first, narrowed by filters; without `state`, those that are open."""
        self.authorize("novella:findings:list")
        unknown = sorted(set(request.query_params) - KNOWN)
        if unknown:
            raise Invalid(f"There is no filter {unknown[0][:60]}; there are {', '.join(sorted(KNOWN))}.", field="query")
        page = parse_page(request)
        limit = page.limit if "limit" in request.query_params else USUAL_LIMIT
        narrowed = {name: request.query_params.get(name, "") for name in FILTERS}
        found = findings.list_findings(request.context, FindingQuery(limit=limit, marker=page.marker, **narrowed))
        last = found.items[-1].uuid if found.items else None
        body = {"findings": [plain(asdict(one)) for one in found.items], "open": findings.counts(request.context)}
        return Response(body | next_links(request, "findings", last_id=last, has_more=found.has_more))
