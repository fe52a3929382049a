"""Share links by which members of a server's project may watch one of its consoles for a while, without input."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import QuerySet

from conductor.api_db.models import ConsoleShare
from conductor.cells.lookup import API_ALIAS
from conductor.core.consoles import ConsoleKind
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.core.messages import message
from conductor.core.phrases import phrase
from conductor.db.transactions import database_now, database_time, one_at_a_time, write_tx
from conductor.identity import delegation
from conductor.identity.delegation import Power
from conductor.services.audit import audit
from conductor.services.audit.audit import AuditEntry
from conductor.services.consoles import consoles
from conductor.services.consoles.consoles import ConsoleTicket
from conductor.services.servers import instances
from conductor.services.servers.types import InstanceData

MINUTES = (15, 60, 240)  # possible durations of a share
MOST_SHARES = 20  # of one server at a time
OPEN_SECONDS = 30.0  # a page uses its token at once
KEPT_SECONDS = 86_400.0  # how long after its end a link still explains why it has ended
NOTHING = message("console_share.nothing")
DELETED = message("console_share.deleted")
OFF = message("console_share.off")


@dataclass(frozen=True)
class ShareView:
    """A share as pages show it. `seconds_left` is as of the read."""

    uuid: str
    instance_uuid: str
    kind: ConsoleKind
    user_name: str
    expires_at: datetime
    seconds_left: float


def share(context: RequestContext, instance_uuid: str, kind: ConsoleKind, minutes: int) -> tuple[str, ShareView]:
    """Let others watch a console for some minutes. Only this call returns the token of the link.

    Raises what `consoles.grant` raises, Invalid for another duration, and Conflict where there are too many shares.
    """
    if minutes not in MINUTES:
        raise Invalid(
            phrase("Select how long to share the console: %(choices)s minutes.", choices=", ".join(map(str, MINUTES))),
            field="minutes",
        )
    consoles.check_right(context)
    delegation.require_of(context, Power.LASTING_WORK)
    consoles.place_of(context, instance_uuid, kind)
    token = secrets.token_urlsafe(32)
    now = database_time(API_ALIAS)
    row = ConsoleShare(
        token_hash=consoles.hash_of(token),
        instance_uuid=instance_uuid,
        kind=kind,
        project_id=instances.get(context, instance_uuid).project_id,
        user_id=context.user_id,
        user_name=context.user_name,
        user_project_id=context.project_id,
        delegated_by=context.delegated_by,
        created_at=now,
        expires_at=now + timedelta(minutes=minutes),
    )
    with write_tx(API_ALIAS):
        one_at_a_time(API_ALIAS, f"console-shares:{instance_uuid}")
        ConsoleShare.objects.filter(expires_at__lte=database_now(-KEPT_SECONDS)).delete()
        good = ConsoleShare.objects.filter(instance_uuid=instance_uuid, expires_at__gt=database_now())
        if good.count() >= MOST_SHARES:
            raise Conflict(message("console_share.too_many", most=MOST_SHARES))
        row.save(force_insert=True)
        _record(context, row, "share", minutes=minutes)
    return token, _view(row, now)


def list_shares(context: RequestContext, instance_uuid: str) -> list[ShareView]:
    """Return a server's shares that the caller may revoke: their own, or all for operators.

    They are sorted by their end.
    """
    now = database_time(API_ALIAS)
    return [_view(row, now) for row in _manageable(context, instance_uuid).order_by("expires_at", "pk")]


def revoke(context: RequestContext, instance_uuid: str, share_uuid: str) -> None:
    """End a share and disconnect its watchers. Raises NotFound."""
    with write_tx(API_ALIAS):
        wanted = uuid_or_none(share_uuid)
        row = _manageable(context, instance_uuid).filter(uuid=wanted).first() if wanted else None
        if row is None:
            raise NotFound(message("console_share.over_already"))
        row.expires_at = row.created_at
        row.save(update_fields=["expires_at"])
        _record(context, row, "unshare")


def find(context: RequestContext, token: str) -> ShareView:
    """Return the share of this token that the caller may watch. Raises NotFound also for another project's."""
    row = _shared_with(context, token)
    _server_of(context, row)
    return _view(row, database_time(API_ALIAS))


def watch(context: RequestContext, token: str, *, session_key: str) -> tuple[ConsoleTicket, ShareView]:
    """Create the caller's own single-use token for the shared console. Raises NotFound, Conflict, Unavailable."""
    row = _shared_with(context, token)
    server = _server_of(context, row)
    if server.power_state not in consoles.ON and server.task_state not in consoles.LEAVING and not server.is_partial:
        raise Conflict(OFF)
    ticket = consoles.grant(
        context,
        str(row.instance_uuid),
        ConsoleKind(row.kind),
        session_key=session_key,
        seconds=OPEN_SECONDS,
        share=row,
    )
    return ticket, _view(row, database_time(API_ALIAS))


def _shared_with(context: RequestContext, token: str) -> ConsoleShare:
    row = ConsoleShare.objects.filter(token_hash=consoles.hash_of(token)).first()
    if row is None or not consoles.may_watch(context, row):
        raise NotFound(NOTHING)
    why_ended = consoles.why_ended(row, database_time(API_ALIAS))
    if why_ended:
        raise NotFound(why_ended)
    return row


def _server_of(context: RequestContext, row: ConsoleShare) -> InstanceData:
    try:
        return instances.get(context, str(row.instance_uuid))
    except NotFound:
        raise NotFound(DELETED) from None


def _manageable(context: RequestContext, instance_uuid: str) -> QuerySet[ConsoleShare]:
    wanted = uuid_or_none(instance_uuid)
    if wanted is None:
        return ConsoleShare.objects.none()
    rows = ConsoleShare.objects.filter(instance_uuid=wanted, expires_at__gt=database_now())
    return rows if context.is_admin else rows.filter(user_id=context.user_id, project_id=context.project_id)


def _view(row: ConsoleShare, now: datetime) -> ShareView:
    return ShareView(
        uuid=str(row.uuid),
        instance_uuid=str(row.instance_uuid),
        kind=ConsoleKind(row.kind),
        user_name=row.user_name,
        expires_at=row.expires_at,
        seconds_left=max((row.expires_at - now).total_seconds(), 0.0),
    )


def _record(context: RequestContext, row: ConsoleShare, verb: str, **details: object) -> None:
    entry = AuditEntry(
        action=f"server.{verb}_console",
        project_id=row.project_id,
        instance_uuid=row.instance_uuid,
        details={"type": str(row.kind), "share": str(row.uuid), **details},
    )
    audit.record(API_ALIAS, context, entry)
