"""The audit log, read-only."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rest_framework.response import Response

from conductor.services import audit, audit_reads, audit_seals
from conductor.services.audit import AuditQuery, AuditView
from conductor.services.audit_seals import SealView
from portal.api.base import ApiRequest
from portal.api.own.openapi import MISSING, described, next_page
from portal.api.own.queries import PAGES, page_of, refuse_unknown, time_of, word_of
from portal.api.own.view import OwnView, plain
from portal.api.pagination import next_links

FILTERS = frozenset({"action", "kind", "result", "user_id", "project_id", "run_uuid", "instance_uuid", "request_id"})
KNOWN = FILTERS | PAGES | {"since"}


class Audit(OwnView):
    @described({"records": [AuditView], "missing_cells": MISSING, **next_page("records")}, query=KNOWN)
    def get(self, request: ApiRequest) -> Response:
        """Newest first, narrowed by filters."""
        self.authorize("novella:audit:list")
        refuse_unknown(request, KNOWN)
        limit, marker = page_of(request)
        narrowed: dict[str, Any] = {name: word_of(request, name) for name in FILTERS}
        query = AuditQuery(since=time_of(request, "since"), limit=limit, marker=marker, **narrowed)
        found = audit.list_records(request.context, query)
        body = {"records": [plain(asdict(one)) for one in found.items], "missing_cells": found.missing_cells}
        audit_reads.note(request.context, via="api", narrowed={name: word for name, word in narrowed.items() if word})
        last = found.items[-1].uuid if found.items else None
        return Response(body | next_links(request, "records", last_id=last, has_more=found.has_more))


class Seals(OwnView):
    @described({"seals": [SealView], "missing_cells": MISSING})
    def get(self, request: ApiRequest) -> Response:
        """How far the log of each database is sealed, and what the last check found."""
        self.authorize("novella:audit:seals")
        found = audit_seals.state(request.context)
        return Response({"seals": [plain(asdict(one)) for one in found.items], "missing_cells": found.missing_cells})
