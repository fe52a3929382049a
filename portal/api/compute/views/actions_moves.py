"""Actions that move servers: resize and its end, cold and live migration, evacuation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.services import evacuations, live_migrations, moves
from portal.api.compute.schemas import moves as schemas
from portal.api.compute.views.offered import Offered, accepted
from portal.api.compute.views.servers import ServerView
from portal.api.validation import as_boolean

STAYS_OFF_SINCE = "2.95"
PASSWORD_GONE_SINCE = "2.14"


def resize(view: ServerView, server_id: str, value: Any) -> Response:
    disk_config = value.get("OS-DCF:diskConfig", "")
    run_uuid = moves.resize(view.request.context, server_id, str(value["flavorRef"]), disk_config=disk_config)
    return accepted(view, run_uuid)


def confirm(view: ServerView, server_id: str, value: Any) -> Response:
    response = accepted(view, moves.confirm(view.request.context, server_id))
    response.status_code = 204
    return response


def revert(view: ServerView, server_id: str, value: Any) -> Response:
    return accepted(view, moves.revert(view.request.context, server_id))


def migrate(view: ServerView, server_id: str, value: Any) -> Response:
    host = (value or {}).get("host") or ""
    if host:
        view.allow("os-migrate-server:migrate:host")
    return accepted(view, moves.migrate(view.request.context, server_id, host))


def live_migrate(view: ServerView, server_id: str, value: Any) -> Response:
    host = value.get("host") or ""
    if host:
        view.allow("os-migrate-server:migrate_live:host")
    _refuse_force(value, host)
    asked = value["block_migration"]
    block_migration = None if asked == "auto" else as_boolean(asked, "os-migrateLive.block_migration")
    run_uuid = live_migrations.begin(view.request.context, server_id, host, block_migration=block_migration)
    return accepted(view, run_uuid)


def evacuate(view: ServerView, server_id: str, value: Any) -> Response:
    """200 and not 202: so clients know it. Until 2.13 the password comes back."""
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
    """Nothing is put where the scheduler would not have it: guests would fail there, or harm others."""
    if "force" in value and as_boolean(value["force"], "force"):
        if not host:
            raise Invalid("Can't force to a non-provided destination", field="force")
        raise Invalid("A host cannot be forced here: leave `force` out, and the scheduler checks it.", field="force")


OFFERED: Mapping[str, Offered] = {
    "resize": Offered(schema=schemas.RESIZE, policy="servers:resize", call=resize),
    "confirmResize": Offered(policy="servers:confirm_resize", call=confirm),
    "revertResize": Offered(policy="servers:revert_resize", call=revert),
    "migrate": Offered(schema=schemas.migrate, policy="os-migrate-server:migrate", call=migrate),
    "os-migrateLive": Offered(schema=schemas.live_migrate, policy="os-migrate-server:migrate_live", call=live_migrate),
    "evacuate": Offered(schema=schemas.evacuate, policy="os-evacuate", call=evacuate),
}
