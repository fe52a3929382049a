"""Volumes: list, create, show, update, delete; metadata and summary."""

from __future__ import annotations

from ast import literal_eval
from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Invalid, NotFound
from conductor.services.volumes import creation, volumes
from conductor.services.volumes.creation import VolumeAsk
from conductor.services.volumes.volumes import VolumeQuery
from conductor.volume import queries
from conductor.volume.models import Volume
from portal.api.base import ApiRequest
from portal.api.idempotency import idempotent
from portal.api.microversions import since
from portal.api.time_filters import parse_times
from portal.api.validation import as_boolean, validate
from portal.api.volume import listing
from portal.api.volume.listing import ListRequest
from portal.api.volume.representations import volumes as serializers
from portal.api.volume.schemas import volumes as schemas
from portal.api.volume.view import VolumeView

FILTERS = (*queries.FILTERS, *queries.UUID_FILTERS)
FLAGS = {"bootable": "is_bootable", "multiattach": "is_multiattach", "consumes_quota": "consumes_quota"}


class Volumes(VolumeView):
    """/v3/volumes; with `is_detailed`, /v3/volumes/detail."""

    is_detailed = False

    def get(self, request: ApiRequest) -> Response:
        self.authorize("volume:get_all")
        requested = listing.parse(request)
        query = self._query(requested)
        found = volumes.list_visible(request.context, query)
        body = listing.answer(request, "volumes", found, requested, self._one)
        if listing.wants_count(request):
            body["count"] = queries.count(request.context, query)
        return Response(body)

    @idempotent(is_one_commit=True)
    def post(self, request: ApiRequest) -> Response:
        self.authorize("volume:create")
        ask = VolumeAsk.parse(validate(request.data, schemas.CREATE)["volume"])
        made = creation.create(request.context, ask)
        return Response({"volume": serializers.volume(made, request, is_new=True)}, status=202)

    def _one(self, row: Volume) -> dict[str, Any]:
        if not self.is_detailed:
            return serializers.summary(row, self.request)
        return serializers.volume(row, self.request, is_admin=self.may("volume:admin_fields"))

    def _query(self, requested: ListRequest) -> VolumeQuery:
        given = self.request.query_params
        times = parse_times(given, queries.TIMES)
        if times and not self.request.microversion.covers("3.60"):
            raise Invalid(f"Volumes are listed by {times[0].column} from version 3.60 on.", field=times[0].column)
        fields: dict[str, Any] = dict(requested.fields)
        for name, field in FLAGS.items():
            if name in given:
                fields[field] = as_boolean(given[name], name)
        if "volume_type" in given:
            fields["type_name"] = given["volume_type"]
        is_allowed = self.may("volume:get_all:all_projects")
        return VolumeQuery(
            filters=listing.parts_of(self.request, FILTERS),
            metadata=pairs(given.get("metadata", "{}"), "metadata"),
            image_metadata=pairs(given.get("glance_metadata", "{}"), "glance_metadata"),
            times=times,
            all_projects=listing.all_projects(self.request, is_allowed=is_allowed),
            **fields,
        )


class VolumeById(VolumeView):
    """/v3/volumes/{id}."""

    def get(self, request: ApiRequest, volume_id: str) -> Response:
        self.authorize("volume:get")
        row = volumes.get_visible(request.context, volume_id)
        return Response({"volume": serializers.volume(row, request, is_admin=self.may("volume:admin_fields"))})

    def put(self, request: ApiRequest, volume_id: str) -> Response:
        self.authorize("volume:update")
        volumes.get_visible(request.context, volume_id)  # an unknown id is reported before an invalid body
        given = validate(request.data, schemas.UPDATE)["volume"]
        if request.microversion.covers("3.53") and not given:
            raise Invalid("Invalid input for field/attribute volume. At least one property is needed.", field="volume")
        row = volumes.update(request.context, volume_id, volumes.changes(given))
        return Response({"volume": serializers.volume(row, request, is_new=True)})

    def delete(self, request: ApiRequest, volume_id: str) -> Response:
        self.authorize("volume:delete")
        given = request.query_params
        is_forced = request.microversion.covers("3.23") and as_boolean(given.get("force", False), "force")
        if is_forced:
            self.authorize("volume:force_delete")
        takes_snapshots = as_boolean(given.get("cascade", False), "cascade")
        volumes.delete(request.context, volume_id, takes_snapshots=takes_snapshots, is_forced=is_forced)
        return Response(status=202)


class Summary(VolumeView):
    """/v3/volumes/summary."""

    @since("3.12")
    def get(self, request: ApiRequest) -> Response:
        self.authorize("volume:get_all")
        everybodys = listing.all_projects(request, is_allowed=self.may("volume:get_all:all_projects"))
        count, size_gb, metadata = queries.summary(request.context, all_projects=everybodys)
        shown: dict[str, Any] = {"total_count": count, "total_size": size_gb}
        if request.microversion.covers("3.36"):
            shown["metadata"] = metadata
        return Response({"volume-summary": shown})


class Metadata(VolumeView):
    """/v3/volumes/{id}/metadata."""

    def get(self, request: ApiRequest, volume_id: str) -> Response:
        self.authorize("volume:get_volume_metadata")
        return Response({"metadata": volumes.get_visible(request.context, volume_id).metadata})

    def post(self, request: ApiRequest, volume_id: str) -> Response:
        self.authorize("volume:create_volume_metadata")
        return self._set(volume_id, keeps_others=True)

    def put(self, request: ApiRequest, volume_id: str) -> Response:
        self.authorize("volume:update_volume_metadata")
        return self._set(volume_id, keeps_others=False)

    def _set(self, volume_id: str, *, keeps_others: bool) -> Response:
        there = volumes.get_visible(self.request.context, volume_id).metadata
        given = validate(self.request.data, schemas.METADATA)["metadata"]
        wanted = {**there, **given} if keeps_others else given
        changed = volumes.update(self.request.context, volume_id, {"metadata": wanted})
        return Response({"metadata": changed.metadata})


class MetadataItem(VolumeView):
    """/v3/volumes/{id}/metadata/{key}."""

    def get(self, request: ApiRequest, volume_id: str, key: str) -> Response:
        self.authorize("volume:get_volume_metadata")
        return Response({"meta": {key: self._item(volume_id, key)[key]}})

    def put(self, request: ApiRequest, volume_id: str, key: str) -> Response:
        self.authorize("volume:update_volume_metadata")
        there = volumes.get_visible(request.context, volume_id).metadata
        given = one_item(request.data, key)
        volumes.update(request.context, volume_id, {"metadata": {**there, **given}})
        return Response({"meta": given})

    def delete(self, request: ApiRequest, volume_id: str, key: str) -> Response:
        self.authorize("volume:delete_volume_metadata")
        left = {name: value for name, value in self._item(volume_id, key).items() if name != key}
        volumes.update(request.context, volume_id, {"metadata": left})
        return Response(status=200)

    def _item(self, volume_id: str, key: str) -> dict[str, str]:
        metadata: dict[str, str] = volumes.get_visible(self.request.context, volume_id).metadata
        if key not in metadata:
            raise NotFound(f"Volume {volume_id} has no metadata with key {key[:60]}.")
        return metadata


def one_item(body: Any, key: str) -> dict[str, str]:
    """Return the item that a body sets. Raises Invalid if its key differs from the path's."""
    given: dict[str, str] = validate(body, schemas.META)["meta"]
    if key not in given:
        raise Invalid("The key in the body is not the one in the path.", field="meta")
    return given


def pairs(text: str, name: str) -> dict[str, str]:
    """Parse `{'a': 'b'}` in a filter, which clients send as a literal of Python. Raises Invalid."""
    try:
        found = literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Invalid(f"Invalid input for query parameter {name}. It must be an object of texts.", field=name)
    return {str(key): str(value) for key, value in found.items()}
