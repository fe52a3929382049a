"""What the reconciler found, read-only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from rest_framework.response import Response

from conductor.services import findings
from conductor.services.findings import FindingQuery, FindingView
from portal.api.base import ApiRequest
from portal.api.own.openapi import described, next_page
from portal.api.own.queries import PAGES, page_of, refuse_unknown, word_of
from portal.api.own.view import OwnView, plain
from portal.api.pagination import next_links

FILTERS = frozenset({"state", "kind", "severity", "cell", "instance_uuid"})
KNOWN = FILTERS | PAGES


class Findings(OwnView):
    @described({"findings": [FindingView], "open": Mapping[str, int], **next_page("findings")}, query=KNOWN)
    def get(self, request: ApiRequest) -> Response:
        """Newest first, narrowed by filters; without `state`, those that are open."""
        self.authorize("novella:findings:list")
        refuse_unknown(request, KNOWN)
        limit, marker = page_of(request)
        narrowed = {name: word_of(request, name) for name in FILTERS}
        found = findings.list_findings(request.context, FindingQuery(limit=limit, marker=marker, **narrowed))
        last = found.items[-1].uuid if found.items else None
        body = {"findings": [plain(asdict(one)) for one in found.items], "open": findings.counts(request.context)}
        return Response(body | next_links(request, "findings", last_id=last, has_more=found.has_more))
