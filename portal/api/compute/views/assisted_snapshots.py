"""Snapshots that storage services request while a volume is attached to a server."""

from __future__ import annotations

from json import JSONDecodeError, loads
from typing import Any
from uuid import UUID

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.services.volumes import snapshots
from portal.api.base import ApiRequest
from portal.api.compute.schemas import assisted_snapshots as schemas
from portal.api.compute.view import ComputeView
from portal.api.validation import validate


class AssistedSnapshots(ComputeView):
    def post(self, request: ApiRequest) -> Response:
        given = validate(request.data, schemas.CREATE)["snapshot"]
        made = snapshots.take(request.context, given["volume_id"], UUID(given["create_info"]["snapshot_id"]))
        return Response({"snapshot": {"id": str(made.uuid), "volumeId": str(made.volume.uuid)}})


class AssistedSnapshot(ComputeView):
    def delete(self, request: ApiRequest, snapshot_id: str) -> Response:
        self.refuse_unknown_query(("delete_info",), since="2.75")
        about = validate(_object(request.query_params.get("delete_info", "")), schemas.DELETE)
        snapshots.drop(snapshot_id, about["volume_id"])
        return Response(status=204)


def _object(text: str) -> Any:
    try:
        return loads(text)
    except (JSONDecodeError, RecursionError):
        raise Invalid(
            'Invalid input for query parameter delete_info. It must be {"volume_id": …} as JSON.', field="delete_info"
        ) from None
