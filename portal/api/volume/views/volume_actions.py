"""Actions on volumes: /v3/volumes/{id}/action, one function each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.services.servers import external_events
from conductor.services.volumes import attachments, management, reimaging, snapshots, uploads, volumes
from conductor.services.volumes.attachments import AttachmentAsk
from conductor.services.volumes.uploads import UploadAsk
from portal.api.base import ApiRequest
from portal.api.validation import as_boolean, validate
from portal.api.volume.representations import volumes as serializers
from portal.api.volume.schemas.volumes import ACTIONS
from portal.api.volume.view import VolumeView

ACCEPTED = 202


def _extend(view: VolumeAction, volume_id: str, given: Any) -> Response:
    may_be_in_use = view.request.microversion.covers("3.42") and view.may("volume:extend_attached_volume")
    external_events.extend(view.request.context, volume_id, int(given["new_size"]), may_be_in_use=may_be_in_use)
    return Response(status=ACCEPTED)


def _complete_extending(view: VolumeAction, volume_id: str, given: Any) -> Response:
    raise Invalid(f"Volume {volume_id} does not wait to be extended: volumes here are extended at once.")


def _set_bootable(view: VolumeAction, volume_id: str, given: Any) -> Response:
    is_bootable = as_boolean(given["bootable"], "os-set_bootable.bootable")
    volumes.update(view.request.context, volume_id, {"is_bootable": is_bootable})
    return Response(status=200)


def _set_readonly(view: VolumeAction, volume_id: str, given: Any) -> Response:
    is_readonly = as_boolean(given["readonly"], "os-update_readonly_flag.readonly")
    volumes.set_readonly(view.request.context, volume_id, is_readonly=is_readonly)
    return Response(status=ACCEPTED)


def _reset_status(view: VolumeAction, volume_id: str, given: Any) -> Response:
    if not any(given.get(name) for name in ("status", "attach_status", "migration_status")):
        raise Invalid(
            "Must specify 'status', 'attach_status' or 'migration_status' for update.", field="os-reset_status"
        )
    if given.get("status"):
        volumes.reset_status(view.request.context, volume_id, given["status"].lower())
    else:
        volumes.get_visible(view.request.context, volume_id)
    return Response(status=ACCEPTED)


def _force_delete(view: VolumeAction, volume_id: str, given: Any) -> Response:
    volumes.delete(view.request.context, volume_id, is_forced=True)
    return Response(status=ACCEPTED)


def _retype(view: VolumeAction, volume_id: str, given: Any) -> Response:
    volumes.retype(view.request.context, volume_id, given["new_type"])
    return Response(status=ACCEPTED)


def _revert(view: VolumeAction, volume_id: str, given: Any) -> Response:
    snapshots.revert(view.request.context, volume_id, given["snapshot_id"])
    return Response(status=ACCEPTED)


def _reimage(view: VolumeAction, volume_id: str, given: Any) -> Response:
    may_be_reserved = as_boolean(given.get("reimage_reserved", False), "os-reimage.reimage_reserved")
    if may_be_reserved:
        view.authorize("volume:reimage_reserved")
    reimaging.reimage(view.request.context, volume_id, given["image_id"], may_be_reserved=may_be_reserved)
    return Response(status=ACCEPTED)


def _show_image_metadata(view: VolumeAction, volume_id: str, given: Any) -> Response:
    return Response({"metadata": volumes.get_visible(view.request.context, volume_id).image_metadata})


def _set_image_metadata(view: VolumeAction, volume_id: str, given: Any) -> Response:
    return Response({"metadata": volumes.set_image_metadata(view.request.context, volume_id, given["metadata"])})


def _unset_image_metadata(view: VolumeAction, volume_id: str, given: Any) -> Response:
    volumes.unset_image_metadata(view.request.context, volume_id, given["key"])
    return Response(status=200)


def _upload(view: VolumeAction, volume_id: str, given: Any) -> Response:
    has_visibility = view.request.microversion.covers("3.1")
    ask = UploadAsk(
        name=given["image_name"],
        disk_format=given.get("disk_format") or "raw",
        container_format=given.get("container_format") or "bare",
        visibility=given.get("visibility", "private") if has_visibility else "private",
        is_protected=has_visibility and as_boolean(given.get("protected", False), "protected"),
        is_forced=as_boolean(given.get("force") or False, "os-volume_upload_image.force"),
    )
    if ask.visibility == "public":
        view.authorize("volume_extension:volume_actions:upload_public")
    volume, image = uploads.upload(view.request.context, volume_id, ask)
    shown: dict[str, Any] = {
        "id": str(volume.uuid),
        "updated_at": serializers.moment(volume.updated_at),
        "status": volume.status,
        "display_description": volume.description,
        "size": volume.size_gb,
        "volume_type": volumes.type_name_of(volume),
        "image_id": str(image.uuid),
        "container_format": ask.container_format,
        "disk_format": ask.disk_format,
        "image_name": ask.name,
    }
    if has_visibility:
        shown |= {"visibility": ask.visibility, "protected": ask.is_protected}
    return Response({"os-volume_upload_image": shown}, status=ACCEPTED)


def _attach(view: VolumeAction, volume_id: str, given: Any) -> Response:
    if bool(given.get("instance_uuid")) == bool(given.get("host_name")):
        raise Invalid("Invalid request to attach volume: name an instance_uuid or a host_name.", field="os-attach")
    ask = AttachmentAsk(
        volume_id=volume_id,
        instance_id=given.get("instance_uuid"),
        host=given.get("host_name") or "",
        device=given["mountpoint"],
        mode=given.get("mode", "rw"),
    )
    attachments.attach(view.request.context, ask)
    return Response(status=ACCEPTED)


def _detach(view: VolumeAction, volume_id: str, given: Any) -> Response:
    attachments.detach(view.request.context, volume_id, (given or {}).get("attachment_id"))
    return Response(status=ACCEPTED)


def _reserve(view: VolumeAction, volume_id: str, given: Any) -> Response:
    attachments.keep(view.request.context, volume_id)
    return Response(status=ACCEPTED)


def _unreserve(view: VolumeAction, volume_id: str, given: Any) -> Response:
    attachments.keep_no_more(view.request.context, volume_id)
    return Response(status=ACCEPTED)


def _begin_detaching(view: VolumeAction, volume_id: str, given: Any) -> Response:
    attachments.begin_detaching(view.request.context, volume_id)
    return Response(status=ACCEPTED)


def _roll_detaching(view: VolumeAction, volume_id: str, given: Any) -> Response:
    attachments.begin_detaching(view.request.context, volume_id, is_back=True)
    return Response(status=ACCEPTED)


def _initialize_connection(view: VolumeAction, volume_id: str, given: Any) -> Response:
    attachments.require_no_server(view.request.context, volume_id)
    raise Invalid("Volumes of this cloud are files that its own hosts open: nothing else can be connected to one.")


def _unmanage(view: VolumeAction, volume_id: str, given: Any) -> Response:
    management.unmanage(view.request.context, volume_id)
    return Response(status=ACCEPTED)


def _terminate_connection(view: VolumeAction, volume_id: str, given: Any) -> Response:
    """Do nothing: no connection was ever initialized. Raises an error for a volume on a server."""
    attachments.require_no_server(view.request.context, volume_id)
    return Response(status=ACCEPTED)


Act = Callable[["VolumeAction", str, Any], Response]
_ACTIONS = "volume_extension:volume_actions"
_ADMIN = "volume_extension:volume_admin_actions"
_IMAGE = "volume_extension:volume_image_metadata"
# Action → (policy rule, handler).
TABLE: Mapping[str, tuple[str, Act]] = {
    "os-extend": ("volume:extend", _extend),
    "os-extend_volume_completion": (f"{_ADMIN}:extend_volume_completion", _complete_extending),
    "os-set_bootable": ("volume:update", _set_bootable),
    "os-update_readonly_flag": ("volume:update_readonly_flag", _set_readonly),
    "os-reset_status": (f"{_ADMIN}:reset_status", _reset_status),
    "os-force_delete": (f"{_ADMIN}:force_delete", _force_delete),
    "os-force_detach": (f"{_ADMIN}:force_detach", _detach),
    "os-retype": ("volume:retype", _retype),
    "revert": ("volume:revert_to_snapshot", _revert),
    "os-reimage": ("volume:reimage", _reimage),
    "os-show_image_metadata": (f"{_IMAGE}:show", _show_image_metadata),
    "os-set_image_metadata": (f"{_IMAGE}:set", _set_image_metadata),
    "os-unset_image_metadata": (f"{_IMAGE}:remove", _unset_image_metadata),
    "os-volume_upload_image": (f"{_ACTIONS}:upload_image", _upload),
    "os-attach": (f"{_ACTIONS}:attach", _attach),
    "os-detach": (f"{_ACTIONS}:detach", _detach),
    "os-reserve": (f"{_ACTIONS}:reserve", _reserve),
    "os-unreserve": (f"{_ACTIONS}:unreserve", _unreserve),
    "os-begin_detaching": (f"{_ACTIONS}:begin_detaching", _begin_detaching),
    "os-roll_detaching": (f"{_ACTIONS}:roll_detaching", _roll_detaching),
    "os-initialize_connection": (f"{_ACTIONS}:initialize_connection", _initialize_connection),
    "os-unmanage": ("volume_extension:volume_unmanage", _unmanage),
    "os-terminate_connection": (f"{_ACTIONS}:terminate_connection", _terminate_connection),
}
SINCE = {"revert": "3.40", "os-reimage": "3.68", "os-extend_volume_completion": "3.71"}
NOT_OFFERED = {
    "os-migrate_volume": "There is one storage: no volume can be moved to another.",
    "os-migrate_volume_completion": "There is one storage: no volume can be moved to another.",
}


class VolumeAction(VolumeView):
    """/v3/volumes/{id}/action."""

    def post(self, request: ApiRequest, volume_id: str) -> Response:
        body = request.data
        if not isinstance(body, dict) or len(body) != 1:
            raise Invalid("Malformed request body: it must hold exactly one action.")
        (name,) = body
        if name in NOT_OFFERED:
            self.authorize(f"{_ADMIN}:migrate_volume")
            raise Invalid(NOT_OFFERED[name])
        if name not in TABLE or not request.microversion.covers(SINCE.get(name, "3.0")):
            volumes.get_visible(request.context, volume_id)
            raise Invalid(f"There is no such action: {str(name)[:60]}")
        rule, act = TABLE[name]
        self.authorize(rule)
        if name != "os-extend":  # os-extend reports an invalid size even for an unknown volume
            volumes.get_visible(request.context, volume_id)
        return act(self, volume_id, validate(body, ACTIONS[name])[name])
