"""Usage: how long the servers of projects ran, and the resources that they used."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.core.page import Page
from conductor.services.billing import usage
from conductor.services.billing.usage import ServerUsage, UsageQuery
from portal.api.base import ApiRequest
from portal.api.compute.representations import usage as serializers
from portal.api.compute.view import ComputeView
from portal.api.pagination import next_links, parse_page
from portal.api.validation import as_boolean

PAGED_SINCE = "2.40"
FORMS = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%d %H:%M:%S.%f")


class UsageView(ComputeView):
    def query(self, project_id: str = "") -> UsageQuery:
        """Return the requested period; without one, this very moment."""
        paged = ("limit", "marker") if self.request.microversion.covers(PAGED_SINCE) else ()
        self.refuse_unknown_query(("start", "end", "detailed", *paged))
        now = usage.now()
        begin = self._time("start", now - timedelta(microseconds=1))
        end = min(self._time("end", now), now)
        if not begin < end:
            raise Invalid("Invalid start time. The start time cannot occur after the end time or now.", field="start")
        if not paged:
            return UsageQuery(begin, end, project_id)
        page = parse_page(self.request)
        return UsageQuery(begin, end, project_id, page.limit, page.marker)

    def links(self, name: str, found: Page[ServerUsage]) -> dict[str, Any]:
        if not self.request.microversion.covers(PAGED_SINCE):
            return {}
        last_id = found.items[-1].uuid if found.items else None
        return next_links(self.request, name, last_id=last_id, has_more=found.has_more)

    def _time(self, name: str, default: datetime) -> datetime:
        text = self.request.query_params.get(name)
        if not text:
            return default
        for form in FORMS:
            try:
                return datetime.strptime(text, form).replace(tzinfo=UTC)
            except ValueError:
                continue
        raise Invalid(f"Datetime is in invalid format: {name} must be like 2026-01-31T12:00:00.", field=name)


class Usages(UsageView):
    def get(self, request: ApiRequest) -> Response:
        query = self.query()
        with_servers = as_boolean(request.query_params.get("detailed", False), "detailed")
        found = usage.servers(request.context, query)
        shown = [
            serializers.project(one, query.begin, query.end, with_servers=with_servers)
            for one in usage.by_project(found.items)
        ]
        return Response({"tenant_usages": shown, **self.links("tenant_usages", found)})


class ProjectUsages(UsageView):
    def get(self, request: ApiRequest, project_id: str) -> Response:
        self.allow("os-simple-tenant-usage:show", target_project_id=project_id)
        query = self.query(project_id)
        found = usage.servers(request.context, query)
        shown = [
            serializers.project(one, query.begin, query.end, with_servers=True) for one in usage.by_project(found.items)
        ]
        return Response({"tenant_usage": shown[0] if shown else {}, **self.links("tenant_usage", found)})
