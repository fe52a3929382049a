"""Groups of volumes (3.13), their types (3.11) and their snapshots (3.14)."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.services.volumes import groups as volume_groups
from conductor.services.volumes.groups import GroupChange, VolumeGroupCreate
from conductor.volume import groups
from conductor.volume.groups import GroupQuery
from conductor.volume.models import GroupSnapshot, VolumeGroup
from portal.api.base import ApiRequest
from portal.api.validation import as_boolean, validate
from portal.api.volume import listing
from portal.api.volume.listing import ListRequest
from portal.api.volume.representations import resources as serializers
from portal.api.volume.schemas import resources as schemas
from portal.api.volume.view import VolumeView


class Groups(VolumeView):
    """/v3/groups; with `is_detailed`, /v3/groups/detail."""

    is_detailed = False
    min_microversion = "3.13"

    def get(self, request: ApiRequest) -> Response:
        self.authorize("group:get_all")
        requested = listing.parse(request)
        found = groups.list_visible(request.context, _query(self, requested, ("name", "status")))
        if not self.is_detailed:
            return Response(listing.answer(request, "groups", found, requested, _summary))
        statuses = volume_groups.statuses_of(found)

        def shown(row: VolumeGroup) -> dict[str, Any]:
            return {**serializers.group(row, request), "status": statuses[row.uuid]}

        return Response(listing.answer(request, "groups", found, requested, shown))

    def post(self, request: ApiRequest) -> Response:
        self.authorize("group:create")
        given = validate(request.data, schemas.CREATE_GROUP)["group"]
        requested = VolumeGroupCreate(
            given["group_type"], tuple(given["volume_types"]), given.get("name"), given.get("description")
        )
        row = volume_groups.create(request.context, requested)
        return Response({"group": {"id": str(row.uuid), "name": row.name}}, status=202)


class GroupById(VolumeView):
    """/v3/groups/{id}."""

    min_microversion = "3.13"

    def get(self, request: ApiRequest, group_id: str) -> Response:
        self.authorize("group:get")
        row = groups.get(request.context, group_id)
        shown = shown_group(row, request)
        if request.microversion.covers("3.25") and as_boolean(
            request.query_params.get("list_volume", False), "list_volume"
        ):
            shown["volumes"] = [str(volume.uuid) for volume in groups.members(row)]
        return Response({"group": shown})

    def put(self, request: ApiRequest, group_id: str) -> Response:
        self.authorize("group:update")
        groups.get(request.context, group_id)
        given = validate(request.data, schemas.UPDATE_GROUP)["group"]
        change = GroupChange(
            fields={name: given[name] for name in ("name", "description") if given.get(name) is not None},
            added=_ids(given.get("add_volumes")),
            removed=_ids(given.get("remove_volumes")),
        )
        if not (change.fields or change.added or change.removed):
            raise Invalid(
                "Name, description, add_volumes, and remove_volumes can not be all empty in the request body."
            )
        volume_groups.update(request.context, group_id, change)
        return Response(status=202)


class GroupAction(VolumeView):
    """/v3/groups/{id}/action."""

    min_microversion = "3.13"

    def post(self, request: ApiRequest, group_id: str) -> Response:
        body = request.data
        groups.get(request.context, group_id)
        if isinstance(body, dict) and "reset_status" in body and request.microversion.covers("3.20"):
            self.authorize("group:reset_status")
            status = validate(body, schemas.RESET_STATUS)["reset_status"]["status"]
            volume_groups.reset_status(request.context, group_id, status.lower())
            return Response(status=202)
        self.authorize("group:delete")
        given = validate(body, schemas.DELETE_GROUP)["delete"] or {}
        with_volumes = as_boolean(given.get("delete-volumes", False), "delete.delete-volumes")
        volume_groups.delete(request.context, group_id, with_volumes=with_volumes)
        return Response(status=202)


class GroupFromSource(VolumeView):
    """/v3/groups/action: creates a group from another, or from its snapshot."""

    min_microversion = "3.14"

    def post(self, request: ApiRequest) -> Response:
        self.authorize("group:create")
        given = validate(request.data, schemas.GROUP_FROM_SOURCE)["create-from-src"]
        row = volume_groups.create_from(
            request.context,
            given.get("name"),
            given.get("description"),
            snapshot_id=given.get("group_snapshot_id"),
            group_id=given.get("source_group_id"),
        )
        return Response({"group": {"id": str(row.uuid), "name": row.name}}, status=202)


class GroupSnapshots(VolumeView):
    """/v3/group_snapshots; with `is_detailed`, /v3/group_snapshots/detail."""

    is_detailed = False
    min_microversion = "3.14"

    def get(self, request: ApiRequest) -> Response:
        self.authorize("group:get_all_group_snapshots")
        requested = listing.parse(request)
        found = groups.list_snapshots(request.context, _query(self, requested, ("name", "status", "group_id")))
        if not self.is_detailed:
            return Response(listing.answer(request, "group_snapshots", found, requested, _summary))
        statuses = volume_groups.statuses_of_snapshots(found)

        def shown(row: GroupSnapshot) -> dict[str, Any]:
            return {**serializers.group_snapshot(row, request), "status": statuses[row.uuid]}

        return Response(listing.answer(request, "group_snapshots", found, requested, shown))

    def post(self, request: ApiRequest) -> Response:
        self.authorize("group:create_group_snapshot")
        given = validate(request.data, schemas.CREATE_GROUP_SNAPSHOT)["group_snapshot"]
        row = volume_groups.take_snapshot(
            request.context, given["group_id"], given.get("name"), given.get("description")
        )
        shown = {"id": str(row.uuid), "name": row.name, "group_type_id": str(row.group.group_type.uuid)}
        return Response({"group_snapshot": shown}, status=202)


class GroupSnapshotById(VolumeView):
    """/v3/group_snapshots/{id}."""

    min_microversion = "3.14"

    def get(self, request: ApiRequest, ref: str) -> Response:
        self.authorize("group:get_group_snapshot")
        return Response({"group_snapshot": shown_snapshot(groups.get_snapshot(request.context, ref), request)})

    def put(self, request: ApiRequest, ref: str) -> Response:
        self.authorize("group:update_group_snapshot")
        groups.get_snapshot(request.context, ref)
        given = validate(request.data, schemas.UPDATE_GROUP_SNAPSHOT)["group_snapshot"]
        row = volume_groups.update_snapshot(request.context, ref, given) if given else None
        return Response({"group_snapshot": shown_snapshot(row or groups.get_snapshot(request.context, ref), request)})

    def delete(self, request: ApiRequest, ref: str) -> Response:
        self.authorize("group:delete_group_snapshot")
        volume_groups.delete_snapshot(request.context, ref)
        return Response(status=202)


class GroupSnapshotAction(VolumeView):
    """/v3/group_snapshots/{id}/action."""

    min_microversion = "3.19"

    def post(self, request: ApiRequest, ref: str) -> Response:
        self.authorize("group:reset_group_snapshot_status")
        groups.get_snapshot(request.context, ref)
        status = validate(request.data, schemas.RESET_STATUS)["reset_status"]["status"]
        volume_groups.reset_snapshot_status(request.context, ref, status.lower())
        return Response(status=202)


class GroupTypes(VolumeView):
    """/v3/group_types."""

    min_microversion = "3.11"

    def get(self, request: ApiRequest) -> Response:
        self.authorize("group:group_types:get")
        requested = listing.parse(request)
        found = groups.list_types(request.context, GroupQuery(filters=self._filters(), **requested.fields))
        return Response(listing.answer(request, "group_types", found, requested, serializers.group_type))

    def post(self, request: ApiRequest) -> Response:
        self.authorize("group:group_types:create")
        given = validate(request.data, schemas.CREATE_GROUP_TYPE)["group_type"]
        return Response({"group_type": serializers.group_type(groups.create_type(_type_values(given)))}, status=202)

    def _filters(self) -> dict[str, Any]:
        """Return the filters: administrators may ask for private types, or with "none" for all."""
        word = self.request.query_params.get("is_public", "true")
        if not self.may("group:group_types:create") or word.strip().lower() == "none":
            return {}
        return {"is_public": as_boolean(word, "is_public")}


class GroupTypeById(VolumeView):
    """/v3/group_types/{id}."""

    min_microversion = "3.11"

    def get(self, request: ApiRequest, type_id: str) -> Response:
        self.authorize("group:group_types:get")
        return Response({"group_type": serializers.group_type(groups.get_type(request.context, type_id))})

    def put(self, request: ApiRequest, type_id: str) -> Response:
        self.authorize("group:group_types:update")
        groups.get_type(request.context, type_id)
        values = _type_values(validate(request.data, schemas.UPDATE_GROUP_TYPE)["group_type"])
        if not values:
            raise Invalid("Specify group type name, description or a combination thereof.", field="group_type")
        return Response({"group_type": serializers.group_type(groups.update_type(request.context, type_id, values))})

    def delete(self, request: ApiRequest, type_id: str) -> Response:
        self.authorize("group:group_types:delete")
        groups.delete_type(request.context, type_id)
        return Response(status=202)


class GroupSpecs(VolumeView):
    """/v3/group_types/{id}/group_specs."""

    min_microversion = "3.11"

    def get(self, request: ApiRequest, type_id: str) -> Response:
        self.authorize("group:group_types_specs:get")
        return Response({"group_specs": groups.get_type(request.context, type_id).specs})

    def post(self, request: ApiRequest, type_id: str) -> Response:
        self.authorize("group:group_types_specs:change")
        groups.get_type(request.context, type_id)
        given = validate(request.data, schemas.GROUP_SPECS)["group_specs"]
        groups.set_type_specs(request.context, type_id, given)
        return Response({"group_specs": given}, status=202)


class GroupSpec(VolumeView):
    """/v3/group_types/{id}/group_specs/{key}."""

    min_microversion = "3.11"

    def get(self, request: ApiRequest, type_id: str, key: str) -> Response:
        self.authorize("group:group_types_specs:get")
        return Response({key: groups.spec_of(request.context, type_id, key)})

    def put(self, request: ApiRequest, type_id: str, key: str) -> Response:
        self.authorize("group:group_types_specs:change")
        groups.get_type(request.context, type_id)
        given = validate(request.data, schemas.ONE_SPEC)
        if key not in given:
            raise Invalid("Request body and URI mismatch: the key in the body is not the one in the path.")
        groups.set_type_specs(request.context, type_id, given)
        return Response(given)

    def delete(self, request: ApiRequest, type_id: str, key: str) -> Response:
        self.authorize("group:group_types_specs:change")
        groups.remove_type_spec(request.context, type_id, key)
        return Response(status=202)


def shown_group(row: VolumeGroup, request: ApiRequest) -> dict[str, Any]:
    return {**serializers.group(row, request), "status": volume_groups.statuses_of([row])[row.uuid]}


def shown_snapshot(row: GroupSnapshot, request: ApiRequest) -> dict[str, Any]:
    status = volume_groups.statuses_of_snapshots([row])[row.uuid]
    return {**serializers.group_snapshot(row, request), "status": status}


def _summary(row: VolumeGroup | GroupSnapshot) -> dict[str, Any]:
    return {"id": str(row.uuid), "name": row.name}


def _query(view: VolumeView, requested: ListRequest, names: tuple[str, ...]) -> GroupQuery:
    given = view.request.query_params
    is_allowed = view.may("volume:get_all:all_projects")
    return GroupQuery(
        filters={name: given[name] for name in names if name in given},
        all_projects=listing.all_projects(view.request, is_allowed=is_allowed),
        **requested.fields,
    )


def _ids(text: str | None) -> list[str]:
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def _type_values(given: Any) -> dict[str, Any]:
    values = {name: given[name] for name in ("name", "description") if given.get(name) is not None}
    if "is_public" in given:
        values["is_public"] = as_boolean(given["is_public"], "group_type.is_public")
    return values | ({"specs": given["group_specs"]} if "group_specs" in given else {})
