"""Proxies for volumes and their snapshots until 2.35."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from conductor.services.volumes import proxies
from conductor.services.volumes.proxies import SnapshotCreate, VolumeAsk
from portal.api.base import ApiRequest
from portal.api.compute.representations import parts
from portal.api.compute.schemas import proxies as schemas
from portal.api.compute.view import ComputeView
from portal.api.pagination import parse_page
from portal.api.validation import as_boolean, validate


class ListView(ComputeView):
    def window(self) -> dict[str, int]:
        offset = self.request.query_params.get("offset", "0")
        start = int(offset) if offset.isascii() and offset.isdigit() and len(offset) <= 9 else 0
        return {"limit": parse_page(self.request).limit, "offset": start}


class Volumes(ListView):
    """Volumes; short and detailed lists show the same."""

    def get(self, request: ApiRequest) -> Response:
        return Response({"volumes": [_volume(row) for row in proxies.list_volumes(request.context, **self.window())]})

    def post(self, request: ApiRequest) -> Response:
        given = validate(request.data, schemas.VOLUME)["volume"]
        size = given.get("size")
        ask = VolumeAsk(
            size_gb=None if size is None else parts.number(size, "volume.size"),
            name=given.get("display_name") or "",
            description=given.get("display_description"),
            availability_zone=given.get("availability_zone"),
            metadata=given.get("metadata") or {},
            type_ref=given.get("volume_type"),
            snapshot_id=given.get("snapshot_id"),
        )
        made = proxies.create_volume(request.context, ask)
        response = Response({"volume": _volume(made)})
        response["Location"] = parts.self_link(request, "os-volumes", str(made.uuid))["href"]
        return response


class VolumeById(ComputeView):
    def get(self, request: ApiRequest, volume_id: str) -> Response:
        return Response({"volume": _volume(proxies.volume(request.context, volume_id))})

    def delete(self, request: ApiRequest, volume_id: str) -> Response:
        proxies.delete_volume(request.context, volume_id)
        return Response(status=202)


class Snapshots(ListView):
    def get(self, request: ApiRequest) -> Response:
        rows = proxies.list_snapshots(request.context, **self.window())
        return Response({"snapshots": [_snapshot(row) for row in rows]})

    def post(self, request: ApiRequest) -> Response:
        given = validate(request.data, schemas.SNAPSHOT)["snapshot"]
        is_forced = as_boolean(given.get("force", False), "snapshot.force")
        requested = SnapshotCreate(name=given.get("display_name") or "", description=given.get("display_description"))
        made = proxies.create_snapshot(request.context, given["volume_id"], requested, may_be_in_use=is_forced)
        return Response({"snapshot": _snapshot(made)})


class SnapshotById(ComputeView):
    def get(self, request: ApiRequest, snapshot_id: str) -> Response:
        return Response({"snapshot": _snapshot(proxies.snapshot(request.context, snapshot_id))})

    def delete(self, request: ApiRequest, snapshot_id: str) -> Response:
        proxies.delete_snapshot(request.context, snapshot_id)
        return Response(status=202)


def _volume(row: Any) -> dict[str, Any]:
    lent = next((one for one in row.attachments.all() if one.instance_uuid), None)
    attachment: dict[str, Any] = {}
    if lent is not None:
        uuid = str(row.uuid)
        attachment = {"id": uuid, "volumeId": uuid, "serverId": str(lent.instance_uuid), "device": lent.device}
    return {
        "id": str(row.uuid),
        "status": row.status,
        "size": row.size_gb,
        "availabilityZone": row.availability_zone,
        "createdAt": parts.to_the_digit(row.created_at),
        "attachments": [attachment],
        "displayName": row.name,
        "displayDescription": row.description,
        "volumeType": row.volume_type.name if row.volume_type else None,
        "snapshotId": str(row.source_uuid) if row.source_kind == "snapshot" and row.source_uuid else None,
        "metadata": dict(row.metadata),
    }


def _snapshot(row: Any) -> dict[str, Any]:
    return {
        "id": str(row.uuid),
        "status": row.status,
        "size": row.size_gb,
        "createdAt": parts.to_the_digit(row.created_at),
        "displayName": row.name,
        "displayDescription": row.description,
        "volumeId": str(row.volume.uuid),
    }
