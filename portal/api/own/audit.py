"""The audit log, read-only."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.services import audit
from conductor.services.audit import AuditQuery
from portal.api.base import ApiRequest
from portal.api.own.view import OwnView, plain
from portal.api.pagination import next_links, parse_page

USUAL_LIMIT = 100
FILTERS = frozenset({"action", "result", "user_id", "project_id", "run_uuid", "instance_uuid", "request_id"})
KNOWN = FILTERS | {"since", "limit", "marker"}


class Audit(OwnView):
    def get(self, request: ApiRequest) -> Response:
        """Newest first, narrowed by filters."""
        self.authorize("novella:audit:list")
        unknown = sorted(set(request.query_params) - KNOWN)
        if unknown:
            raise Invalid(f"There is no filter {unknown[0][:60]}; there are {', '.join(sorted(KNOWN))}.", field="query")
        page = parse_page(request)
        limit = page.limit if "limit" in request.query_params else USUAL_LIMIT
        narrowed = {name: request.query_params.get(name, "") for name in FILTERS}
        query = AuditQuery(since=_since(request), limit=limit, marker=page.marker, **narrowed)
        found = audit.list_records(request.context, query)
        body = {"records": [plain(asdict(one)) for one in found.items], "missing_cells": found.missing_cells}
        last = found.items[-1].uuid if found.items else None
        return Response(body | next_links(request, "records", last_id=last, has_more=found.has_more))


def _since(request: ApiRequest) -> datetime | None:
    text = request.query_params.get("since", "")
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(f"{text[:60]} is not a time such as 2026-01-31T12:00:00Z.", field="since") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
