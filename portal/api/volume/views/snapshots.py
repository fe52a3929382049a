"""Snapshots of volumes."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Invalid, NotFound
from conductor.services.volumes import management, volumes
from conductor.services.volumes import snapshots as volume_snapshots
from conductor.volume import snapshots
from conductor.volume.models import Snapshot
from conductor.volume.snapshots import SnapshotCreate, SnapshotQuery
from portal.api.base import ApiRequest
from portal.api.validation import as_boolean, one_action, validate
from portal.api.volume import listing
from portal.api.volume.representations.resources import snapshot
from portal.api.volume.schemas import volumes as schemas
from portal.api.volume.view import VolumeView
from portal.api.volume.views.volumes import one_item, pairs


class Snapshots(VolumeView):
    """/v3/snapshots; with `is_detailed`, /v3/snapshots/detail."""

    is_detailed = False

    def get(self, request: ApiRequest) -> Response:
        self.authorize("volume:get_all_snapshots")
        requested, given = listing.parse(request), request.query_params
        by_metadata = request.microversion.covers("3.22") and "metadata" in given
        query = SnapshotQuery(
            filters=listing.parts_of(request, tuple(snapshots.FILTERS)),
            volume_id=given.get("volume_id"),
            consumes_quota=as_boolean(given["consumes_quota"], "consumes_quota") if "consumes_quota" in given else None,
            uuids=given["id"].split(",") if "id" in given else (),
            metadata=pairs(given["metadata"], "metadata") if by_metadata else {},
            all_projects=listing.all_projects(request, is_allowed=self.may("volume:get_all:all_projects")),
            **requested.fields,
        )
        found = snapshots.list_visible(request.context, query)
        body = listing.answer(request, "snapshots", found, requested, self._one)
        if listing.wants_count(request):
            body["count"] = snapshots.count(request.context, query)
        return Response(body)

    def post(self, request: ApiRequest) -> Response:
        self.authorize("volume:create_snapshot")
        given = validate(request.data, schemas.CREATE_SNAPSHOT)["snapshot"]
        requested = SnapshotCreate(
            name=given.get("name") or given.get("display_name") or "",
            description=given["description"] if "description" in given else given.get("display_description"),
            metadata=given.get("metadata") or {},
        )
        made = volume_snapshots.create(
            request.context, str(given["volume_id"]), requested, may_be_in_use=self._may_be_in_use(given)
        )
        return Response({"snapshot": snapshot(made, request, is_detailed=False)}, status=202)

    def _one(self, row: Snapshot) -> dict[str, Any]:
        return snapshot(row, self.request, is_detailed=self.is_detailed)

    def _may_be_in_use(self, given: Any) -> bool:
        """Return whether the volume may be in use: with `force`; always from 3.66 on, where `force` cannot be false.

        Raises Invalid.
        """
        force = as_boolean(given.get("force") or False, "snapshot.force")
        if not self.request.microversion.covers("3.66"):
            return force
        if given.get("force") is not None and not force:
            raise Invalid(
                "Invalid input for field/attribute snapshot.force. Since 3.66 it cannot be false: leave it out.",
                field="snapshot.force",
            )
        return True


class SnapshotById(VolumeView):
    """/v3/snapshots/{id}."""

    def get(self, request: ApiRequest, snapshot_id: str) -> Response:
        self.authorize("volume:get_snapshot")
        return Response({"snapshot": snapshot(snapshots.get_visible(request.context, snapshot_id), request)})

    def put(self, request: ApiRequest, snapshot_id: str) -> Response:
        self.authorize("volume:update_snapshot")
        snapshots.get_visible(request.context, snapshot_id)
        given = validate(request.data, schemas.UPDATE_SNAPSHOT)["snapshot"]
        row = volume_snapshots.update(request.context, snapshot_id, volumes.changes(given))
        return Response({"snapshot": snapshot(row, request, is_detailed=False)})

    def delete(self, request: ApiRequest, snapshot_id: str) -> Response:
        self.authorize("volume:delete_snapshot")
        volume_snapshots.delete(request.context, snapshot_id)
        return Response(status=202)


class SnapshotAction(VolumeView):
    """/v3/snapshots/{id}/action."""

    def post(self, request: ApiRequest, snapshot_id: str) -> Response:
        body = request.data
        name = one_action(body, schemas.SNAPSHOT_ACTIONS)
        self.authorize(_RULES[name])
        snapshots.get_visible(request.context, snapshot_id)
        given = validate(body, schemas.SNAPSHOT_ACTIONS[name])[name]
        if name == "os-force_delete":
            volume_snapshots.delete(request.context, snapshot_id, is_forced=True)
        elif name == "os-unmanage":
            management.unmanage_snapshot(request.context, snapshot_id)
        elif name == "os-reset_status":
            volume_snapshots.reset_status(request.context, snapshot_id, given["status"].lower())
        else:
            progress = given.get("progress") or ""
            volume_snapshots.report_status(request.context, snapshot_id, given["status"], progress=progress)
        return Response(status=202)


_RULES = {
    "os-reset_status": "volume_extension:snapshot_admin_actions:reset_status",
    "os-force_delete": "volume_extension:snapshot_admin_actions:force_delete",
    "os-unmanage": "snapshot_extension:snapshot_unmanage",
    "os-update_snapshot_status": "snapshot_extension:snapshot_actions:update_snapshot_status",
}


class Metadata(VolumeView):
    """/v3/snapshots/{id}/metadata."""

    def get(self, request: ApiRequest, snapshot_id: str) -> Response:
        self.authorize("volume:get_snapshot_metadata")
        return Response({"metadata": snapshots.get_visible(request.context, snapshot_id).metadata})

    def post(self, request: ApiRequest, snapshot_id: str) -> Response:
        return self._set(snapshot_id, keeps=True)

    def put(self, request: ApiRequest, snapshot_id: str) -> Response:
        return self._set(snapshot_id, keeps=False)

    def _set(self, snapshot_id: str, *, keeps: bool) -> Response:
        self.authorize("volume:update_snapshot_metadata")
        snapshots.get_visible(self.request.context, snapshot_id)
        given = validate(self.request.data, schemas.METADATA)["metadata"]
        changed = volume_snapshots.set_metadata(self.request.context, snapshot_id, given, keeps=keeps)
        return Response({"metadata": changed})


class MetadataItem(VolumeView):
    """/v3/snapshots/{id}/metadata/{key}."""

    def get(self, request: ApiRequest, snapshot_id: str, key: str) -> Response:
        self.authorize("volume:get_snapshot_metadata")
        there = snapshots.get_visible(request.context, snapshot_id).metadata
        if key not in there:
            raise NotFound(f"Snapshot {snapshot_id} has no metadata with key {key[:60]}.")
        return Response({"meta": {key: there[key]}})

    def put(self, request: ApiRequest, snapshot_id: str, key: str) -> Response:
        self.authorize("volume:update_snapshot_metadata")
        snapshots.get_visible(request.context, snapshot_id)
        given = one_item(request.data, key)
        volume_snapshots.set_metadata(request.context, snapshot_id, given, keeps=True)
        return Response({"meta": given})

    def delete(self, request: ApiRequest, snapshot_id: str, key: str) -> Response:
        self.authorize("volume:delete_snapshot_metadata")
        volume_snapshots.unset_metadata(request.context, snapshot_id, key)
        return Response(status=200)
