"""Backups of volumes."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.services.volumes import backup_records as records
from conductor.services.volumes import backups as volume_backups
from conductor.services.volumes.backup_records import Record
from conductor.volume import backups
from conductor.volume.backups import BackupQuery
from conductor.volume.models import Backup
from portal.api.base import ApiRequest
from portal.api.idempotency import idempotent
from portal.api.microversions import since
from portal.api.validation import one_action, validate
from portal.api.volume import listing
from portal.api.volume.representations import backups as serializers
from portal.api.volume.schemas import backups as schemas
from portal.api.volume.view import VolumeView

FILTERS = (*backups.FILTERS, *backups.UUID_FILTERS)


class Backups(VolumeView):
    """/v3/backups; with `is_detailed`, /v3/backups/detail."""

    is_detailed = False

    def get(self, request: ApiRequest) -> Response:
        self.authorize("backup:get_all")
        requested = listing.parse(request)
        query = BackupQuery(
            filters=listing.parts_of(request, FILTERS),
            all_projects=listing.all_projects(request, is_allowed=self.may("volume:get_all:all_projects")),
            **requested.fields,
        )
        found = backups.list_visible(request.context, query)
        parents = backups.with_dependents(found) if self.is_detailed else set()

        def shown(row: Backup) -> dict[str, Any]:
            return _detail(self, row, row.pk in parents) if self.is_detailed else serializers.summary(row, request)

        body = listing.answer(request, "backups", found, requested, shown)
        if listing.wants_count(request):
            body["count"] = backups.count(request.context, query)
        return Response(body)

    @idempotent(is_one_commit=True)
    def post(self, request: ApiRequest) -> Response:
        self.authorize("backup:create")
        version = request.microversion
        schema = schemas.CREATE_343 if version.covers("3.43") else schemas.CREATE
        given = validate(request.data, schemas.CREATE_351 if version.covers("3.51") else schema)["backup"]
        made = volume_backups.create(request.context, serializers.requested_backup(given))
        return Response({"backup": serializers.summary(made, request)}, status=202)


class BackupById(VolumeView):
    """/v3/backups/{id}."""

    def get(self, request: ApiRequest, backup_id: str) -> Response:
        self.authorize("backup:get")
        return Response({"backup": _detail(self, *volume_backups.get(request.context, backup_id))})

    @since("3.9")
    def put(self, request: ApiRequest, backup_id: str) -> Response:
        self.authorize("backup:update")
        backups.get_visible(request.context, backup_id)  # an unknown id is reported before an invalid body
        schema = schemas.UPDATE_343 if request.microversion.covers("3.43") else schemas.UPDATE
        given = validate(request.data, schema)["backup"]
        if not given:
            raise Invalid("Missing updates: name one of name, description or metadata.", field="backup")
        row = volume_backups.update(request.context, backup_id, given)
        return Response({"backup": serializers.summary(row, request)})

    def delete(self, request: ApiRequest, backup_id: str) -> Response:
        self.authorize("backup:delete")
        volume_backups.delete(request.context, backup_id)
        return Response(status=202)


class Restore(VolumeView):
    """/v3/backups/{id}/restore."""

    @idempotent(is_one_commit=True)
    def post(self, request: ApiRequest, backup_id: str) -> Response:
        self.authorize("backup:restore")
        backups.get_visible(request.context, backup_id)
        given = validate(request.data, schemas.RESTORE)["restore"]
        begun = volume_backups.restore(
            request.context, backup_id, volume_id=given.get("volume_id"), name=given.get("name")
        )
        shown = {
            "backup_id": begun.backup_id,
            "volume_id": str(begun.volume.uuid),
            "volume_name": begun.volume.name,
        }
        return Response({"restore": shown}, status=202)


class BackupAction(VolumeView):
    """/v3/backups/{id}/action."""

    def post(self, request: ApiRequest, backup_id: str) -> Response:
        body = request.data
        name = one_action(body, schemas.ACTIONS)
        self.authorize(_RULES[name])
        backups.get_visible(request.context, backup_id)
        given = validate(body, schemas.ACTIONS[name])[name]
        if name == "os-force_delete":
            volume_backups.delete(request.context, backup_id, is_forced=True)
        else:
            volume_backups.reset_status(request.context, backup_id, given["status"].lower())
        return Response(status=202)


_RULES = {
    "os-reset_status": "volume_extension:backup_admin_actions:reset_status",
    "os-force_delete": "volume_extension:backup_admin_actions:force_delete",
}


class ExportRecord(VolumeView):
    """/v3/backups/{id}/export_record."""

    def get(self, request: ApiRequest, backup_id: str) -> Response:
        self.authorize("backup:backup-export")
        record = records.export(request.context, backup_id)
        return Response({"backup-record": {"backup_service": record.service, "backup_url": record.text}})


class ImportRecord(VolumeView):
    """/v3/backups/import_record."""

    def post(self, request: ApiRequest) -> Response:
        self.authorize("backup:backup-import")
        given = validate(request.data, schemas.IMPORT)["backup-record"]
        row = records.import_record(request.context, Record(given["backup_service"], given["backup_url"]))
        return Response({"backup": serializers.summary(row, request)}, status=201)


def _detail(view: VolumeView, row: Backup, has_dependents: bool) -> dict[str, Any]:
    return serializers.backup(
        row,
        view.request,
        has_dependents=has_dependents,
        shows_project=view.may("backup:backup_project_attribute"),
    )
