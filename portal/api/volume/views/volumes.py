"""Volumes: list, create, show, change, delete, grow."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.services import volumes
from conductor.services.volumes import VolumeQuery
from conductor.volume.models import Volume
from portal.api.base import ApiRequest
from portal.api.pagination import next_links, parse_page
from portal.api.validation import as_boolean, validate
from portal.api.volume.schemas import volumes as schemas
from portal.api.volume.serializers import volumes as serializers
from portal.api.volume.view import VolumeView

FILTERS = ("name", "status", "availability_zone")
# Only the compute service detaches: a guest may be writing.
NOT_FOR_USERS = ("os-detach", "os-force_detach", "os-terminate_connection", "os-attach", "os-reserve", "os-unreserve")


class Volumes(VolumeView):
    """/v3/volumes; with `is_detailed`, /v3/volumes/detail."""

    is_detailed = False

    def get(self, request: ApiRequest) -> Response:
        self.authorize("volume:get_all")
        page = parse_page(request)
        found = volumes.list_visible(request.context, self._query(limit=page.limit + 1, marker=page.marker))
        shown = found[: page.limit]
        last_id = str(shown[-1].uuid) if shown else None
        body = {"volumes": [self._one(row) for row in shown]}
        return Response(body | next_links(request, "volumes", last_id=last_id, has_more=len(found) > len(shown)))

    def post(self, request: ApiRequest) -> Response:
        self.authorize("volume:create")
        wish = serializers.wanted_volume(validate(request.data, schemas.CREATE)["volume"])
        return Response({"volume": serializers.volume(volumes.create(request.context, wish), request)}, status=202)

    def _one(self, row: Volume) -> dict[str, Any]:
        if not self.is_detailed:
            return serializers.summary(row, self.request)
        return serializers.volume(row, self.request, is_admin=self.may("volume:admin_fields"))

    def _query(self, *, limit: int, marker: str) -> VolumeQuery:
        given = self.request.query_params
        all_projects = as_boolean(given.get("all_tenants", False), "all_tenants")
        if all_projects and not self.may("volume:get_all:all_projects"):
            all_projects = False  # as the service does: for everybody else the word says nothing
        fields: dict[str, Any] = {"sort": sort} if (sort := _sort(given)) else {}
        if "bootable" in given:
            fields["is_bootable"] = as_boolean(given["bootable"], "bootable")
        return VolumeQuery(
            filters={name: given[name] for name in FILTERS if name in given},
            all_projects=all_projects,
            limit=limit,
            marker=marker,
            **fields,
        )


class VolumeById(VolumeView):
    """/v3/volumes/{id}."""

    def get(self, request: ApiRequest, volume_id: str) -> Response:
        self.authorize("volume:get")
        return self._shown(volumes.get_visible(request.context, volume_id))

    def put(self, request: ApiRequest, volume_id: str) -> Response:
        self.authorize("volume:update")
        volumes.get_visible(request.context, volume_id)  # an unknown one is told before a wrong body
        given = validate(request.data, schemas.UPDATE)["volume"]
        return self._shown(volumes.update(request.context, volume_id, serializers.changes(given)))

    def delete(self, request: ApiRequest, volume_id: str) -> Response:
        self.authorize("volume:delete")
        volumes.delete(request.context, volume_id)
        return Response(status=202)

    def _shown(self, row: Volume) -> Response:
        is_admin = self.may("volume:admin_fields")
        return Response({"volume": serializers.volume(row, self.request, is_admin=is_admin)})


class VolumeAction(VolumeView):
    """/v3/volumes/{id}/action."""

    def post(self, request: ApiRequest, volume_id: str) -> Response:
        body = request.data
        if not isinstance(body, dict) or len(body) != 1:
            raise Invalid("Malformed request body: it must hold exactly one action.")
        (name,) = body
        if name == "os-extend":
            self.authorize("volume:extend")
            size = int(validate(body, schemas.EXTEND)[name]["new_size"])
            volumes.extend(request.context, volume_id, size)
            return Response(status=202)
        if name == "os-set_bootable":
            self.authorize("volume:update")
            word = validate(body, schemas.SET_BOOTABLE)[name]["bootable"]
            volumes.update(request.context, volume_id, {"is_bootable": as_boolean(word, "os-set_bootable.bootable")})
            return Response(status=200)
        if name == "os-reset_status":
            self.authorize("volume_extension:reset_status")
            volumes.reset_status(request.context, volume_id, validate(body, schemas.RESET_STATUS)[name]["status"] or "")
            return Response(status=202)
        self.authorize("volume:update")
        volumes.get_visible(request.context, volume_id)
        if name in NOT_FOR_USERS:
            raise Conflict(f"{name} is for the compute service alone: detach the volume from its server.")
        raise Invalid(f"There is no such action: {str(name)[:60]}")


class Metadata(VolumeView):
    """/v3/volumes/{id}/metadata."""

    def get(self, request: ApiRequest, volume_id: str) -> Response:
        self.authorize("volume:get")
        return Response({"metadata": volumes.get_visible(request.context, volume_id).metadata})

    def post(self, request: ApiRequest, volume_id: str) -> Response:
        return self._set(volume_id, keeps_others=True)

    def put(self, request: ApiRequest, volume_id: str) -> Response:
        return self._set(volume_id, keeps_others=False)

    def _set(self, volume_id: str, *, keeps_others: bool) -> Response:
        self.authorize("volume:update")
        given = validate(self.request.data, schemas.METADATA)["metadata"]
        there = volumes.get_visible(self.request.context, volume_id).metadata if keeps_others else {}
        changed = volumes.update(self.request.context, volume_id, {"metadata": {**there, **given}})
        return Response({"metadata": changed.metadata})


class MetadataItem(VolumeView):
    """/v3/volumes/{id}/metadata/{key}."""

    def get(self, request: ApiRequest, volume_id: str, key: str) -> Response:
        self.authorize("volume:get")
        return Response({"meta": {key: self._item(volume_id, key)[key]}})

    def put(self, request: ApiRequest, volume_id: str, key: str) -> Response:
        self.authorize("volume:update")
        given = validate(request.data, schemas.META)["meta"]
        if key not in given:
            raise Invalid("The key in the body is not the one in the path.", field="meta")
        there = volumes.get_visible(request.context, volume_id).metadata
        volumes.update(request.context, volume_id, {"metadata": {**there, **given}})
        return Response({"meta": given})

    def delete(self, request: ApiRequest, volume_id: str, key: str) -> Response:
        self.authorize("volume:update")
        left = {name: value for name, value in self._item(volume_id, key).items() if name != key}
        volumes.update(request.context, volume_id, {"metadata": left})
        return Response(status=200)

    def _item(self, volume_id: str, key: str) -> dict[str, str]:
        metadata: dict[str, str] = volumes.get_visible(self.request.context, volume_id).metadata
        if key not in metadata:
            raise NotFound(f"Volume {volume_id} has no metadata with key {key[:60]}.")
        return metadata


def _sort(given: Any) -> list[tuple[str, bool]]:
    """`sort=name:asc,size`, or `sort_key` and `sort_dir`; descending where no direction is given."""
    if "sort" in given:
        words = [word.strip().partition(":") for word in str(given["sort"]).split(",")]
        return [(key, direction != "asc") for key, _, direction in words]
    if "sort_key" in given:
        return [(given["sort_key"], given.get("sort_dir", "desc") != "asc")]
    return []
