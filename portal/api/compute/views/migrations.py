"""Migrations: all of them for operators, and those in progress of a server."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from conductor.services.server_migrations import live_migrations, migrations
from conductor.services.server_migrations.migrations import MigrationQuery
from portal.api.base import ApiRequest
from portal.api.compute.representations import migrations as serializers
from portal.api.compute.representations.server_queries import change_names, changes_of
from portal.api.compute.schemas import moves as schemas
from portal.api.compute.view import BARE_SINCE, ComputeView
from portal.api.compute.views.servers import ServerView
from portal.api.pagination import next_links, parse_page
from portal.api.validation import as_boolean, validate

PAGED_SINCE = "2.59"
QUEUED_ABORT_SINCE = "2.65"
# Filter of the API → field of the query.
FILTERS = {
    "host": "host",
    "source_compute": "source_host",
    "status": "status",
    "migration_type": "migration_type",
    "instance_uuid": "instance_uuid",
}
OWNERS = {"user_id": "user_id", "project_id": "project_id"}


class Migrations(ComputeView):
    def get(self, request: ApiRequest) -> Response:
        found = migrations.list_page(request.context, self._query())
        has_hosts = self.allows("os-migrations:index:host")
        shown = [serializers.show(request, move, request.microversion, has_hosts=has_hosts) for move in found.items]
        body: dict[str, Any] = {"migrations": shown}
        if request.microversion.covers(PAGED_SINCE):
            last = found.items[-1].uuid if found.items else None
            body |= next_links(request, "migrations", last_id=last, has_more=found.has_more)
        return Response(body)

    def _query(self) -> MigrationQuery:
        version, given = self.request.microversion, self.request.query_params
        names = {**FILTERS, **(OWNERS if version.covers("2.80") else {})}
        self.refuse_unknown_query((*names, "hidden", *change_names(version)), since=PAGED_SINCE)
        requested: dict[str, Any] = {field: given[name] for name, field in names.items() if name in given}
        requested["is_hidden"] = as_boolean(given.get("hidden", False), "hidden")
        if "host" in requested or "source_host" in requested:
            self.allow("os-migrations:index:host")
        if version.covers(PAGED_SINCE):
            page = parse_page(self.request)
            requested |= {"limit": page.limit, "marker": page.marker}
            requested["changed_since"], requested["changed_before"] = changes_of(self.request)
        return MigrationQuery(**requested)


class ServerMigrations(ServerView):
    bare_since = BARE_SINCE

    min_microversion = "2.23"

    def get(self, request: ApiRequest, server_id: str) -> Response:
        self.allow("servers:migrations:index")
        found = migrations.of_server(request.context, server_id)
        has_hosts = self.allows("servers:migrations:index:host")
        shown = [serializers.of_server(move, request.microversion, has_hosts=has_hosts) for move in found]
        return Response({"migrations": shown})


class ServerMigration(ServerView):
    bare_since = BARE_SINCE

    min_microversion = "2.23"

    def get(self, request: ApiRequest, server_id: str, ref: str) -> Response:
        self.allow("servers:migrations:show")
        found = migrations.get_of_server(request.context, server_id, ref)
        return Response({"migration": serializers.of_server(found, request.microversion)})

    def delete(self, request: ApiRequest, server_id: str, ref: str) -> Response:
        """Abort a live migration: a queued one is cancelled, a running one is aborted by its source."""
        if not request.microversion.covers("2.24"):
            return self.http_method_not_allowed(request)
        self.allow("servers:migrations:delete")
        queued_too = request.microversion.covers(QUEUED_ABORT_SINCE)
        live_migrations.abort(request.context, server_id, ref, queued_too=queued_too)
        return Response(status=202)


class ServerMigrationAction(ServerView):
    min_microversion = "2.22"

    def post(self, request: ApiRequest, server_id: str, ref: str) -> Response:
        self.allow("servers:migrations:force_complete")
        validate(request.data, schemas.FORCE_COMPLETE)
        live_migrations.force_complete(request.context, server_id, ref)
        return Response(status=202)
