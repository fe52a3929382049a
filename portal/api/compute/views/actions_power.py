"""Power and state actions: start, stop, reboot, rescue, rebuild, lock, reset-state, and restore of a deleted server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.core.request_spec import ImageSpec
from conductor.services.servers import actions, instances, locking, rebuilds, security_groups
from conductor.services.servers.rebuilds import RebuildRequest
from conductor.services.servers.types import InstanceData
from portal.api.compute.representations import servers
from portal.api.compute.representations.server_requests import checked_files, checked_user_data, last_part
from portal.api.compute.schemas import actions_power as schemas
from portal.api.compute.schemas import servers as server_schemas
from portal.api.compute.views.offered import ActionRoute, Call, accepted
from portal.api.compute.views.servers import ServerView, changed_columns

SHOWS_KEY_SINCE, SHOWS_USER_DATA_SINCE = "2.54", "2.57"
RESCUES_VOLUMES_SINCE, REFILLS_VOLUMES_SINCE = "2.87", "2.93"


def _begin(name: str) -> Call:
    """Return the handler of an action that needs only the server's id."""

    def call(view: ServerView, server_id: str, value: Any) -> Response:
        return accepted(view, actions.begin(view.request.context, server_id, name))

    return call


def reboot(view: ServerView, server_id: str, value: Any) -> Response:
    name = "reboot_hard" if value["type"].upper() == "HARD" else "reboot"
    return accepted(view, actions.begin(view.request.context, server_id, name))


def change_password(view: ServerView, server_id: str, value: Any) -> Response:
    return accepted(view, rebuilds.change_password(view.request.context, server_id, value["adminPass"]))


def rescue(view: ServerView, server_id: str, value: Any) -> Response:
    """Answers 200 with the password, which is stored nowhere else."""
    options = value or {}
    password = options.get("adminPass") or rebuilds.new_password()
    image_ref = options.get("rescue_image_ref", "")
    run_uuid = rebuilds.rescue(
        view.request.context,
        server_id,
        image_ref=image_ref,
        admin_password=password,
        may_have_root_volume=view.request.microversion.covers(RESCUES_VOLUMES_SINCE),
    )
    response = accepted(view, run_uuid, {"adminPass": password})
    response.status_code = 200
    return response


def rebuild(view: ServerView, server_id: str, value: Any) -> Response:
    """Answers with the server as it will be after the rebuild."""
    version = view.request.microversion
    requested = replace(_rebuild_request(value), may_refill=version.covers(REFILLS_VOLUMES_SINCE))
    run_uuid = rebuilds.rebuild(view.request.context, server_id, requested)
    found = view.find(server_id)
    rebuilt = _as_rebuilt(found, requested)
    shown = servers.rebuilt(view.shown(rebuilt)) | {"adminPass": requested.admin_password}
    if version.covers(SHOWS_KEY_SINCE):
        shown["key_name"] = rebuilt.key_name
    if version.covers(SHOWS_USER_DATA_SINCE):
        shown["user_data"] = value.get("user_data", found.user_data)
    response = accepted(view, run_uuid, {"server": shown})
    response["Location"] = shown["links"][0]["href"]
    return response


def _rebuild_request(value: Mapping[str, Any]) -> RebuildRequest:
    if value.get("trusted_image_certificates"):
        raise Invalid(
            "No host verifies signatures of images: leave the certificates out.",
            field="rebuild.trusted_image_certificates",
        )
    values = changed_columns(value)
    if "metadata" in value:
        values["metadata"] = value["metadata"]
    requested = RebuildRequest(
        image_ref=last_part(value["imageRef"]),
        values=values,
        admin_password=value.get("adminPass") or rebuilds.new_password(),
        files=checked_files(value.get("personality", ()), "rebuild"),
    )
    if "key_name" in value:
        requested = replace(requested, key_name=value["key_name"])
    if "user_data" in value:
        requested = replace(requested, user_data=checked_user_data(value["user_data"], "rebuild"))
    return requested


def _as_rebuilt(view: InstanceData, requested: RebuildRequest) -> InstanceData:
    changed: dict[str, Any] = dict(requested.values)
    if view.image.image_id:
        changed["image"] = ImageSpec(image_id=requested.image_ref)
    if requested.key_name is not rebuilds.UNCHANGED:
        changed["key_name"] = requested.key_name
    return replace(view, **changed)


def lock(view: ServerView, server_id: str, value: Any) -> Response:
    reason = value.get("locked_reason") if view.request.microversion.covers("2.73") and value else None
    return accepted(view, locking.lock(view.request.context, server_id, reason))


def unlock(view: ServerView, server_id: str, value: Any) -> Response:
    may_override = view.allows("os-lock-server:unlock:unlock_override")
    return accepted(view, locking.unlock(view.request.context, server_id, may_override=may_override))


def reset_state(view: ServerView, server_id: str, value: Any) -> Response:
    return accepted(view, locking.reset(view.request.context, server_id, value["state"]))


def add_security_group(view: ServerView, server_id: str, value: Any) -> Response:
    return accepted(view, security_groups.add(view.request.context, server_id, value["name"]))


def remove_security_group(view: ServerView, server_id: str, value: Any) -> Response:
    return accepted(view, security_groups.remove(view.request.context, server_id, value["name"]))


def console_output(view: ServerView, server_id: str, value: Any) -> Response:
    length = (value or {}).get("length")
    output = instances.console_output(view.request.context, server_id, None if length is None else int(length))
    return Response({"output": output})


def force_delete(view: ServerView, server_id: str, value: Any) -> Response:
    instances.delete(view.request.context, server_id, is_forced=True)
    return Response(status=202)


OFFERED: Mapping[str, ActionRoute] = {
    "os-start": ActionRoute(policy="servers:start", call=_begin("start")),
    "os-stop": ActionRoute(policy="servers:stop", call=_begin("stop")),
    "reboot": ActionRoute(policy="servers:reboot", call=reboot, schema=schemas.REBOOT),
    "pause": ActionRoute(policy="os-pause-server:pause", call=_begin("pause")),
    "unpause": ActionRoute(policy="os-pause-server:unpause", call=_begin("unpause")),
    "suspend": ActionRoute(policy="os-suspend-server:suspend", call=_begin("suspend")),
    "resume": ActionRoute(policy="os-suspend-server:resume", call=_begin("resume")),
    "changePassword": ActionRoute(policy="os-admin-password", call=change_password, schema=schemas.CHANGE_PASSWORD),
    "rescue": ActionRoute(policy="os-rescue", call=rescue, schema=schemas.RESCUE),
    "unrescue": ActionRoute(policy="os-unrescue", call=_begin("unrescue")),
    "rebuild": ActionRoute(policy="servers:rebuild", call=rebuild, schema=schemas.rebuild),
    "trigger_crash_dump": ActionRoute(
        policy="servers:trigger_crash_dump", call=_begin("trigger_crash_dump"), since="2.17"
    ),
    "lock": ActionRoute(policy="os-lock-server:lock", call=lock, schema=schemas.lock),
    "unlock": ActionRoute(policy="os-lock-server:unlock", call=unlock),
    "os-resetState": ActionRoute(policy="os-admin-actions:reset_state", call=reset_state, schema=schemas.RESET_STATE),
    "restore": ActionRoute(policy="os-deferred-delete:restore", call=_begin("restore")),
    "forceDelete": ActionRoute(policy="os-deferred-delete:force", call=force_delete),
    "addSecurityGroup": ActionRoute(
        policy="os-security-groups:add", call=add_security_group, schema=schemas.SECURITY_GROUP
    ),
    "removeSecurityGroup": ActionRoute(
        policy="os-security-groups:remove", call=remove_security_group, schema=schemas.SECURITY_GROUP
    ),
    "os-getConsoleOutput": ActionRoute(
        policy="os-console-output", call=console_output, schema=server_schemas.CONSOLE_OUTPUT
    ),
}
