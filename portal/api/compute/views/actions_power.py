"""Everyday actions: on and off, reboots, rescue, rebuild, locks, states, and the way back from a deletion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.core.request_spec import ImageSpec
from conductor.services import (
    instance_locks,
    instance_security_groups,
    instances,
    rebuilds,
    server_actions,
    state_resets,
)
from conductor.services.rebuilds import RebuildWish
from conductor.services.values import InstanceView
from portal.api.compute.schemas import actions_power as schemas
from portal.api.compute.schemas import servers as server_schemas
from portal.api.compute.serializers import servers
from portal.api.compute.serializers.build_wishes import checked_files, checked_user_data, last_part
from portal.api.compute.views.offered import Call, Offered, accepted
from portal.api.compute.views.servers import ServerView, changed_columns

SHOWS_KEY_SINCE, SHOWS_USER_DATA_SINCE = "2.54", "2.57"
RESCUES_VOLUMES_SINCE, REFILLS_VOLUMES_SINCE = "2.87", "2.93"


def _begin(name: str) -> Call:
    """An action that needs to know nothing but its server."""

    def call(view: ServerView, server_id: str, value: Any) -> Response:
        return accepted(view, server_actions.begin(view.request.context, server_id, name))

    return call


def reboot(view: ServerView, server_id: str, value: Any) -> Response:
    name = "reboot_hard" if value["type"].upper() == "HARD" else "reboot"
    return accepted(view, server_actions.begin(view.request.context, server_id, name))


def change_password(view: ServerView, server_id: str, value: Any) -> Response:
    return accepted(view, rebuilds.change_password(view.request.context, server_id, value["adminPass"]))


def rescue(view: ServerView, server_id: str, value: Any) -> Response:
    """Answers 200: the password is in the answer, and nowhere else."""
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
    """Answers with the server as it will be."""
    version = view.request.microversion
    wish = replace(_rebuild_wish(value), may_refill=version.covers(REFILLS_VOLUMES_SINCE))
    run_uuid = rebuilds.rebuild(view.request.context, server_id, wish)
    found = view.find(server_id)
    rebuilt = _as_rebuilt(found, wish)
    shown = servers.rebuilt(view.shown(rebuilt)) | {"adminPass": wish.admin_password}
    if version.covers(SHOWS_KEY_SINCE):
        shown["key_name"] = rebuilt.key_name
    if version.covers(SHOWS_USER_DATA_SINCE):
        shown["user_data"] = value.get("user_data", found.user_data)
    response = accepted(view, run_uuid, {"server": shown})
    response["Location"] = shown["links"][0]["href"]
    return response


def _rebuild_wish(value: Mapping[str, Any]) -> RebuildWish:
    if value.get("trusted_image_certificates"):
        raise Invalid(
            "No host verifies signatures of images: leave the certificates out.",
            field="rebuild.trusted_image_certificates",
        )
    values = changed_columns(value)
    if "metadata" in value:
        values["metadata"] = value["metadata"]
    wish = RebuildWish(
        image_ref=last_part(value["imageRef"]),
        values=values,
        admin_password=value.get("adminPass") or rebuilds.new_password(),
        files=checked_files(value.get("personality", ()), "rebuild"),
    )
    if "key_name" in value:
        wish = replace(wish, key_name=value["key_name"])
    if "user_data" in value:
        wish = replace(wish, user_data=checked_user_data(value["user_data"], "rebuild"))
    return wish


def _as_rebuilt(view: InstanceView, wish: RebuildWish) -> InstanceView:
    changed: dict[str, Any] = dict(wish.values)
    if view.image.image_id:
        changed["image"] = ImageSpec(image_id=wish.image_ref)
    if wish.key_name is not rebuilds.UNCHANGED:
        changed["key_name"] = wish.key_name
    return replace(view, **changed)


def lock(view: ServerView, server_id: str, value: Any) -> Response:
    reason = value.get("locked_reason") if view.request.microversion.covers("2.73") and value else None
    return accepted(view, instance_locks.lock(view.request.context, server_id, reason))


def unlock(view: ServerView, server_id: str, value: Any) -> Response:
    may_override = view.allows("os-lock-server:unlock:unlock_override")
    return accepted(view, instance_locks.unlock(view.request.context, server_id, may_override=may_override))


def reset_state(view: ServerView, server_id: str, value: Any) -> Response:
    return accepted(view, state_resets.reset(view.request.context, server_id, value["state"]))


def add_security_group(view: ServerView, server_id: str, value: Any) -> Response:
    return accepted(view, instance_security_groups.add(view.request.context, server_id, value["name"]))


def remove_security_group(view: ServerView, server_id: str, value: Any) -> Response:
    return accepted(view, instance_security_groups.remove(view.request.context, server_id, value["name"]))


def console_output(view: ServerView, server_id: str, value: Any) -> Response:
    length = (value or {}).get("length")
    output = instances.console_output(view.request.context, server_id, None if length is None else int(length))
    return Response({"output": output})


def force_delete(view: ServerView, server_id: str, value: Any) -> Response:
    instances.delete(view.request.context, server_id, is_forced=True)
    return Response(status=202)


OFFERED: Mapping[str, Offered] = {
    "os-start": Offered(policy="servers:start", call=_begin("start")),
    "os-stop": Offered(policy="servers:stop", call=_begin("stop")),
    "reboot": Offered(policy="servers:reboot", call=reboot, schema=schemas.REBOOT),
    "pause": Offered(policy="os-pause-server:pause", call=_begin("pause")),
    "unpause": Offered(policy="os-pause-server:unpause", call=_begin("unpause")),
    "suspend": Offered(policy="os-suspend-server:suspend", call=_begin("suspend")),
    "resume": Offered(policy="os-suspend-server:resume", call=_begin("resume")),
    "changePassword": Offered(policy="os-admin-password", call=change_password, schema=schemas.CHANGE_PASSWORD),
    "rescue": Offered(policy="os-rescue", call=rescue, schema=schemas.RESCUE),
    "unrescue": Offered(policy="os-unrescue", call=_begin("unrescue")),
    "rebuild": Offered(policy="servers:rebuild", call=rebuild, schema=schemas.rebuild),
    "trigger_crash_dump": Offered(policy="servers:trigger_crash_dump", call=_begin("trigger_crash_dump"), since="2.17"),
    "lock": Offered(policy="os-lock-server:lock", call=lock, schema=schemas.lock),
    "unlock": Offered(policy="os-lock-server:unlock", call=unlock),
    "os-resetState": Offered(policy="os-admin-actions:reset_state", call=reset_state, schema=schemas.RESET_STATE),
    "restore": Offered(policy="os-deferred-delete:restore", call=_begin("restore")),
    "forceDelete": Offered(policy="os-deferred-delete:force", call=force_delete),
    "addSecurityGroup": Offered(
        policy="os-security-groups:add", call=add_security_group, schema=schemas.SECURITY_GROUP
    ),
    "removeSecurityGroup": Offered(
        policy="os-security-groups:remove", call=remove_security_group, schema=schemas.SECURITY_GROUP
    ),
    "os-getConsoleOutput": Offered(
        policy="os-console-output", call=console_output, schema=server_schemas.CONSOLE_OUTPUT
    ),
}
