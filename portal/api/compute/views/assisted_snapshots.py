"""Snapshots that storage services request while a volume is attached to a server."""

from __future__ import annotations

from json import JSONDecodeError, loads
from typing import Any
from uuid import UUID

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.services.volumes import snapshots
from portal.api.base import ApiRequest
from portal.api.compute.view import ComputeView
from portal.api.schema_parts import UUID as UUID_SCHEMA
from portal.api.schema_parts import Schema, closed, wrapped
from portal.api.validation import validate

_TEXT: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
_HOW = closed(
    {"snapshot_id": UUID_SCHEMA, "type": {"enum": ["qcow2"]}, "new_file": _TEXT, "id": _TEXT},
    required=("snapshot_id", "type", "new_file"),
)
CREATE = wrapped("snapshot", {"volume_id": UUID_SCHEMA, "create_info": _HOW}, required=("volume_id", "create_info"))
# For storage backends that keep chains of files; ignored here.
_FILE: Schema = {"type": ["string", "null"], "maxLength": 255}
DELETE: Schema = closed(
    {"volume_id": UUID_SCHEMA, **dict.fromkeys(("type", "file_to_merge", "merge_target_file"), _FILE)},
    required=("volume_id",),
)


class AssistedSnapshots(ComputeView):
    def post(self, request: ApiRequest) -> Response:
        given = validate(request.data, CREATE)["snapshot"]
        made = snapshots.take(request.context, given["volume_id"], UUID(given["create_info"]["snapshot_id"]))
        return Response({"snapshot": {"id": str(made.uuid), "volumeId": str(made.volume.uuid)}})


class AssistedSnapshot(ComputeView):
    def delete(self, request: ApiRequest, snapshot_id: str) -> Response:
        self.refuse_unknown_query(("delete_info",), since="2.75")
        about = validate(_object(request.query_params.get("delete_info", "")), DELETE)
        snapshots.drop(snapshot_id, about["volume_id"])
        return Response(status=204)


def _object(text: str) -> Any:
    try:
        return loads(text)
    except (JSONDecodeError, RecursionError):
        raise Invalid(
            'Invalid input for query parameter delete_info. It must be {"volume_id": …} as JSON.', field="delete_info"
        ) from None
