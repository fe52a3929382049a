"""Server actions that move servers: resize with its confirmation and revert, cold and live migration, evacuation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.services.fleet import evacuations
from conductor.services.server_migrations import live_migrations, resizes
from portal.api.compute.schemas import moves as schemas
from portal.api.compute.views.offered import ActionRoute, accepted
from portal.api.compute.views.servers import ServerView
from portal.api.validation import as_boolean

STAYS_OFF_SINCE = "2.95"
PASSWORD_GONE_SINCE = "2.14"


def resize(view: ServerView, server_id: str, value: Any) -> Response:
    disk_config = value.get("OS-DCF:diskConfig", "")
    run_uuid = resizes.resize(view.request.context, server_id, str(value["flavorRef"]), disk_config=disk_config)
    return accepted(view, run_uuid)


def confirm(view: ServerView, server_id: str, value: Any) -> Response:
    response = accepted(view, resizes.confirm(view.request.context, server_id))
    response.status_code = 204
    return response


def revert(view: ServerView, server_id: str, value: Any) -> Response:
    return accepted(view, resizes.revert(view.request.context, server_id))


def migrate(view: ServerView, server_id: str, value: Any) -> Response:
    host = (value or {}).get("host") or ""
    if host:
        view.allow("os-migrate-server:migrate:host")
    return accepted(view, resizes.migrate(view.request.context, server_id, host))


def live_migrate(view: ServerView, server_id: str, value: Any) -> Response:
    host = value.get("host") or ""
    if host:
        view.allow("os-migrate-server:migrate_live:host")
    _refuse_force(value, host)
    requested = value["block_migration"]
    block_migration = None if requested == "auto" else as_boolean(requested, "os-migrateLive.block_migration")
    run_uuid = live_migrations.begin(view.request.context, server_id, host, block_migration=block_migration)
    return accepted(view, run_uuid)


def evacuate(view: ServerView, server_id: str, value: Any) -> Response:
    """Answers 200 instead of 202, as clients expect. Until 2.13 the answer has the password."""
    host = value.get("host") or ""
    _refuse_force(value, host)
    stays_off = view.request.microversion.covers(STAYS_OFF_SINCE)
    password = value.get("adminPass", "")
    run_uuid = evacuations.begin(view.request.context, server_id, host, stays_off=stays_off, admin_password=password)
    shows_password = password and not view.request.microversion.covers(PASSWORD_GONE_SINCE)
    response = accepted(view, run_uuid, {"adminPass": password} if shows_password else None)
    response.status_code = 200
    return response


def _refuse_force(value: Mapping[str, Any], host: str) -> None:
    """Refuse to force a server onto a host against the scheduler: it could fail there, or harm other servers."""
    if "force" in value and as_boolean(value["force"], "force"):
        if not host:
            raise Invalid("Can't force to a non-provided destination", field="force")
        raise Invalid("A host cannot be forced here: leave `force` out, and the scheduler checks it.", field="force")


OFFERED: Mapping[str, ActionRoute] = {
    "resize": ActionRoute(schema=schemas.RESIZE, policy="servers:resize", call=resize),
    "confirmResize": ActionRoute(policy="servers:confirm_resize", call=confirm),
    "revertResize": ActionRoute(policy="servers:revert_resize", call=revert),
    "migrate": ActionRoute(schema=schemas.migrate, policy="os-migrate-server:migrate", call=migrate),
    "os-migrateLive": ActionRoute(
        schema=schemas.live_migrate, policy="os-migrate-server:migrate_live", call=live_migrate
    ),
    "evacuate": ActionRoute(schema=schemas.evacuate, policy="os-evacuate", call=evacuate),
}
