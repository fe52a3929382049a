"""Server actions that create an image, or shelve the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.response import Response

from conductor.services.servers import server_images
from conductor.services.servers.server_images import CreatedImage, ServerImageCreate
from portal.api.compute.schemas import storage_actions as schemas
from portal.api.compute.views.offered import ActionRoute, accepted
from portal.api.compute.views.servers import ServerView
from portal.api.links import absolute

IMAGE_ID_SINCE = "2.45"


def create_image(view: ServerView, server_id: str, value: Any) -> Response:
    return _made(view, server_images.create_image(view.request.context, server_id, _requested(value)))


def create_backup(view: ServerView, server_id: str, value: Any) -> Response:
    made = server_images.create_backup(
        view.request.context,
        server_id,
        _requested(value),
        backup_type=value["backup_type"],
        rotation=int(value["rotation"]),
    )
    return _made(view, made)


def shelve(view: ServerView, server_id: str, value: Any) -> Response:
    return accepted(view, server_images.shelve(view.request.context, server_id))


def offload(view: ServerView, server_id: str, value: Any) -> Response:
    return accepted(view, server_images.offload(view.request.context, server_id))


def unshelve(view: ServerView, server_id: str, value: Any) -> Response:
    wanted = value or {}
    host = wanted.get("host", "")
    if host:
        view.allow("os-shelve:unshelve_to_host")
    zone = wanted["availability_zone"] or "" if "availability_zone" in wanted else None
    run_uuid = server_images.unshelve(view.request.context, server_id, availability_zone=zone, host=host)
    return accepted(view, run_uuid)


def _requested(value: Mapping[str, Any]) -> ServerImageCreate:
    return ServerImageCreate(name=value["name"], metadata=value.get("metadata", {}))


def _made(view: ServerView, made: CreatedImage) -> Response:
    """Return the response for a new image: its id is in a header before 2.45 and in the body from then on."""
    is_in_body = view.request.microversion.covers(IMAGE_ID_SINCE)
    response = accepted(view, made.run_uuid, {"image_id": made.image_id} if is_in_body else None)
    if not is_in_body:
        response["Location"] = absolute(view.request, f"/image/v2/images/{made.image_id}")
    return response


OFFERED: Mapping[str, ActionRoute] = {
    "createImage": ActionRoute(policy="servers:create_image", schema=schemas.CREATE_IMAGE, call=create_image),
    "createBackup": ActionRoute(policy="os-create-backup", schema=schemas.CREATE_BACKUP, call=create_backup),
    "shelve": ActionRoute(policy="os-shelve:shelve", call=shelve),
    "shelveOffload": ActionRoute(policy="os-shelve:shelve_offload", call=offload),
    "unshelve": ActionRoute(policy="os-shelve:unshelve", schema=schemas.unshelve, call=unshelve),
}
