"""Volumes of a server."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Conflict, Forbidden, Invalid, NotSupported
from conductor.services.audit import audit
from conductor.services.servers import server_volumes
from conductor.services.servers import server_volumes as volume_swaps
from conductor.services.servers.server_volumes import Attachment, AttachmentCreate
from portal.api.base import ApiRequest
from portal.api.compute.schemas import storage_actions as schemas
from portal.api.compute.views.offered import accepted
from portal.api.compute.views.servers import ServerView
from portal.api.pagination import parse_page
from portal.api.validation import as_boolean, validate

REFUSALS = (Conflict, Forbidden, NotSupported)
WITHOUT_BODY_SINCE = "2.101"

SHARED_SINCE = "2.60"


class AttachmentView(ServerView):
    def one(self, attachment: Attachment, server_id: str) -> dict[str, Any]:
        """Return an attachment with the fields that the version has."""
        version = self.request.microversion
        shown: dict[str, Any] = {
            "volumeId": attachment.volume_id,
            "serverId": server_id,
            "device": attachment.device,
        }
        if version.covers("2.1", "2.88"):
            shown["id"] = attachment.volume_id
        if version.covers("2.70"):
            shown["tag"] = attachment.tag
        if version.covers("2.79"):
            shown["delete_on_termination"] = attachment.delete_on_termination
        if version.covers("2.89"):
            shown |= {"attachment_id": attachment.attachment_id, "bdm_uuid": attachment.attachment_id}
        return shown

    def recorded(self, action: str, server_id: str, error: Any) -> None:
        audit.record_refusal(self.request.context, action, server_id, error)


class VolumeAttachments(AttachmentView):
    """/servers/{id}/os-volume_attachments."""

    def get(self, request: ApiRequest, server_id: str) -> Response:
        self.allow("os-volumes-attachments:index")
        self.refuse_unknown_query(("limit", "offset"))
        found = server_volumes.list_attachments(request.context, server_id)
        offset = request.query_params.get("offset", "0")
        if not (offset.isascii() and offset.isdigit() and len(offset) <= 9):
            raise Invalid(
                "Invalid input for query parameter offset. It must be a number of at least 0.", field="offset"
            )
        shown = found[int(offset) :][: parse_page(request).limit]
        return Response({"volumeAttachments": [self.one(attachment, server_id) for attachment in shown]})

    def post(self, request: ApiRequest, server_id: str) -> Response:
        self.allow("os-volumes-attachments:create")
        given = validate(request.data, schemas.attach_volume(request.microversion))["volumeAttachment"]
        is_deleted = as_boolean(given.get("delete_on_termination", False), "volumeAttachment.delete_on_termination")
        may_share = request.microversion.covers(SHARED_SINCE)
        requested = AttachmentCreate(
            given["volumeId"], given.get("device") or "", given.get("tag"), is_deleted, may_share
        )
        try:
            attachment = server_volumes.attach(request.context, server_id, requested)
        except REFUSALS as error:
            self.recorded("attach_volume", server_id, error)
            raise
        if request.microversion.covers(WITHOUT_BODY_SINCE):
            return accepted(self, attachment.run_uuid)
        response = accepted(self, attachment.run_uuid, {"volumeAttachment": self.one(attachment, server_id)})
        response.status_code = 200
        return response


class VolumeAttachment(AttachmentView):
    """/servers/{id}/os-volume_attachments/{volume}."""

    def get(self, request: ApiRequest, server_id: str, volume_id: str) -> Response:
        self.allow("os-volumes-attachments:show")
        found = server_volumes.get(request.context, server_id, volume_id)
        return Response({"volumeAttachment": self.one(found, server_id)})

    def put(self, request: ApiRequest, server_id: str, volume_id: str) -> Response:
        """Set whether the volume is deleted with the server; or swap it for another volume, for services only."""
        given = validate(request.data, schemas.update_attachment(request.microversion))["volumeAttachment"]
        if given["volumeId"] != volume_id:
            return self._swap(server_id, volume_id, given["volumeId"])
        self.allow("os-volumes-attachments:update")
        found = server_volumes.get(request.context, server_id, volume_id)
        values = {"device": found.device, "tag": found.tag, "serverId": server_id, "id": volume_id}
        for name, value in values.items():
            if name in given and given[name] != value:
                raise Invalid(f"The {name} of an attachment cannot be changed.", field=f"volumeAttachment.{name}")
        if "delete_on_termination" in given:
            word = as_boolean(given["delete_on_termination"], "volumeAttachment.delete_on_termination")
            server_volumes.keep_or_delete(request.context, server_id, volume_id, delete_on_termination=word)
        return Response(status=202)

    def _swap(self, server_id: str, volume_id: str, new_volume_id: str) -> Response:
        self.allow("os-volumes-attachments:swap")
        try:
            return accepted(self, volume_swaps.swap(self.request.context, server_id, volume_id, new_volume_id))
        except REFUSALS as error:
            self.recorded("swap_volume", server_id, error)
            raise

    def delete(self, request: ApiRequest, server_id: str, volume_id: str) -> Response:
        self.allow("os-volumes-attachments:delete")
        try:
            return accepted(self, server_volumes.detach(request.context, server_id, volume_id))
        except REFUSALS as error:
            self.recorded("detach_volume", server_id, error)
            raise
