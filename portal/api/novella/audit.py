"""The audit log, read-only."""

from __future__ import annotations

from rest_framework.decorators import action
from rest_framework.response import Response

from conductor.services.audit import audit, operator_audit
from conductor.services.audit import seals as audit_seals
from conductor.services.audit.audit import AuditQuery, AuditView
from conductor.services.audit.seals import SealView
from portal.api.base import ApiRequest
from portal.api.novella.data import DataSerializer, envelope, missing_cells, page
from portal.api.novella.filters import FilterField, PageFilter, TimestampFilter
from portal.api.novella.operations import describes
from portal.api.novella.viewset import NovellaViewSet

NARROWING = ("action", "kind", "result", "user_id", "project_id", "run_uuid", "instance_uuid", "request_id")


class AuditRecordSerializer(DataSerializer):
    """An entry of the audit log."""

    class Meta:
        dataclass = AuditView


class SealSerializer(DataSerializer):
    """State of the seals of one database's audit log."""

    class Meta:
        dataclass = SealView


class AuditFilter(PageFilter):
    action = FilterField()
    kind = FilterField()
    result = FilterField()
    user_id = FilterField()
    project_id = FilterField()
    run_uuid = FilterField()
    instance_uuid = FilterField()
    request_id = FilterField()
    since = TimestampFilter()


class AuditViewSet(NovellaViewSet):
    @describes(page("records", AuditRecordSerializer, missing_cells=missing_cells()), query=AuditFilter)
    def list(self, request: ApiRequest) -> Response:
        """List audit records, the newest first."""
        self.authorize("novella:audit:list")
        query = AuditFilter.parse(request)
        found = audit.list_records(request.context, AuditQuery(**query))
        answer = self.page("records", AuditRecordSerializer, found, missing_cells=found.missing_cells)
        narrowed = {name: query[name] for name in NARROWING if query[name]}
        operator_audit.note(request.context, via="api", narrowed=narrowed)
        return answer

    @describes(envelope(seals=SealSerializer(many=True), missing_cells=missing_cells()))
    @action(detail=False)
    def seals(self, request: ApiRequest) -> Response:
        """Show how far the log of each database is sealed, and what the last check found."""
        self.authorize("novella:audit:seals")
        found = audit_seals.state(request.context)
        body = {"seals": self.shown(SealSerializer, list(found.items)), "missing_cells": found.missing_cells}
        return Response(body)
