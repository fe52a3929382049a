"""Attachments, which clients may create directly: /v3/attachments, from 3.27 on."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from conductor.services.volumes import attachments
from conductor.services.volumes.attachments import AttachmentAsk, AttachmentQuery
from conductor.volume.models import VolumeAttachment
from portal.api.base import ApiRequest
from portal.api.microversions import since
from portal.api.validation import validate
from portal.api.volume import listing
from portal.api.volume.representations import resources as serializers
from portal.api.volume.schemas import resources as schemas
from portal.api.volume.view import VolumeView

FILTERS = ("volume_id", "instance_id", "status", "attach_status")


class Attachments(VolumeView):
    """/v3/attachments; with `is_detailed`, /v3/attachments/detail."""

    is_detailed = False
    min_microversion = "3.27"

    def get(self, request: ApiRequest) -> Response:
        self.authorize("volume:attachment_get")
        requested, given = listing.parse(request), request.query_params
        query = AttachmentQuery(
            filters={name: given[name] for name in FILTERS if name in given},
            all_projects=listing.all_projects(request, is_allowed=self.may("volume:get_all:all_projects")),
            **requested.fields,
        )
        found = attachments.list_visible(request.context, query)
        return Response(listing.answer(request, "attachments", found, requested, self._one))

    def post(self, request: ApiRequest) -> Response:
        self.authorize("volume:attachment_create")
        knows_mode = request.microversion.covers("3.54")
        schema = schemas.CREATE_ATTACHMENT_354 if knows_mode else schemas.CREATE_ATTACHMENT
        given = validate(request.data, schema)["attachment"]
        connector = given.get("connector")
        ask = AttachmentAsk(
            volume_id=given["volume_uuid"],
            instance_id=given.get("instance_uuid"),
            connector=connector or None,
            mode=given.get("mode", str((connector or {}).get("mode", "rw"))),
            device=str((connector or {}).get("mountpoint", ""))[:63],
            host=str((connector or {}).get("host", ""))[:255],
        )
        row = attachments.create(request.context, ask)
        return Response({"attachment": serializers.attachment(row)})

    def _one(self, row: VolumeAttachment) -> dict[str, Any]:
        return serializers.attachment(row) if self.is_detailed else serializers.attachment_summary(row)


class AttachmentById(VolumeView):
    """/v3/attachments/{id}."""

    min_microversion = "3.27"

    def get(self, request: ApiRequest, attachment_id: str) -> Response:
        self.authorize("volume:attachment_get")
        row = attachments.get(request.context, attachment_id)
        return Response({"attachment": serializers.attachment(row)})

    def put(self, request: ApiRequest, attachment_id: str) -> Response:
        self.authorize("volume:attachment_update")
        attachments.get(request.context, attachment_id)
        connector = validate(request.data, schemas.UPDATE_ATTACHMENT)["attachment"]["connector"]
        row = attachments.connect(request.context, attachment_id, connector)
        return Response({"attachment": serializers.attachment(row)})

    def delete(self, request: ApiRequest, attachment_id: str) -> Response:
        self.authorize("volume:attachment_delete")
        left = attachments.delete(request.context, attachment_id)
        return Response({"attachments": [serializers.attachment_summary(row) for row in left]})


class AttachmentAction(VolumeView):
    """/v3/attachments/{id}/action."""

    @since("3.44")
    def post(self, request: ApiRequest, attachment_id: str) -> Response:
        self.authorize("volume:attachment_complete")
        attachments.get(request.context, attachment_id)
        validate(request.data, schemas.COMPLETE_ATTACHMENT)
        attachments.complete(request.context, attachment_id)
        return Response(status=204)
