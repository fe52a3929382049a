"""Rights to consoles: short-lived tokens that open one console once, and what ends it while it is open."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet

from conductor.api_db.models import ConsoleShare, ConsoleToken, InstanceMapping
from conductor.cell_db.models import ConsoleDoor, Instance
from conductor.cells.lookup import API_ALIAS, CELL0
from conductor.cells.scatter_gather import scatter_gather
from conductor.cells.silence import is_silent
from conductor.core.consoles import CAPABILITY_OF, ConsoleKind
from conductor.core.context import RequestContext
from conductor.core.errors import CellUnavailable, Conflict, Forbidden, NotFound, NotSupported, Unavailable
from conductor.core.states import PowerState, TaskState
from conductor.services import audit, instances, server_actions
from conductor.services.instance_queries import missing
from conductor.transactions import database_now, database_time, write_tx

ON = (PowerState.RUNNING, PowerState.PAUSED)
LEAVING = frozenset({TaskState.DELETING, TaskState.SOFT_DELETING, TaskState.MIGRATING})
OVER = "The time of this link is over. Ask whoever gave it to you for another one."
REVOKED = "Whoever shared this console has ended it. Ask them for another link."
KEPT_SECONDS = 30 * 86_400.0  # the longest that a console may be open: until then its row is asked for

# Whom a token speaks for now; None when the right to it is gone.
AskerOf = Callable[[str, str, str], RequestContext | None]


@dataclass(frozen=True)
class ConsoleTicket:
    """A token as it is shown, once, to whoever asked for it."""

    token: str
    instance_uuid: str
    kind: ConsoleKind
    expires_at: datetime


@dataclass(frozen=True)
class Door:
    """How the host of a guest is reached."""

    address: str
    port: int
    fingerprint: str
    key: str


@dataclass(frozen=True)
class OpenedConsole:
    """A console that a token has opened. `seconds` is how long it may stay open; 0 for ever.

    Who only watches is shown everything, and nothing that they say reaches the guest.
    """

    token_hash: str
    instance_uuid: str
    host: str
    kind: ConsoleKind
    door: Door
    seconds: float
    only_watches: bool = False


def grant(
    context: RequestContext,
    instance_uuid: str,
    kind: ConsoleKind,
    *,
    session_key: str = "",
    seconds: float = 0.0,
    share: ConsoleShare | None = None,
) -> ConsoleTicket:
    """A token for one console of a server, good for so many seconds (0: as the settings say); with `share` to watch it.

    Raises NotFound, Forbidden for who only reads, Conflict while the guest is off, leaving or without a host,
    NotSupported where its host has no such console, Unavailable.
    """
    if share is None:
        check_right(context)
    cell, host = place_of(context, instance_uuid, kind)
    token = secrets.token_urlsafe(32)
    now = database_time(API_ALIAS)
    row = ConsoleToken(
        token_hash=hash_of(token),
        instance_uuid=instance_uuid,
        cell=cell,
        host=host,
        kind=kind,
        user_id=context.user_id,
        project_id=context.project_id,
        session_key=session_key,
        created_at=now,
        expires_at=now + timedelta(seconds=seconds or settings.NOVELLA_CONSOLE_TOKEN_SECONDS),
        share_uuid=share.uuid if share else None,
    )
    with write_tx(API_ALIAS):
        ConsoleToken.objects.filter(expires_at__lt=database_now(-KEPT_SECONDS)).delete()
        ConsoleToken.objects.filter(expires_at__lt=database_now(), used_at=None).delete()
        row.save(force_insert=True)
    return ConsoleTicket(token, instance_uuid, kind, row.expires_at)


def show(token: str) -> tuple[ConsoleTicket, Door, str]:
    """What a token that was not used yet opens, with the host's name. Raises NotFound; does not use it."""
    row = _unused().filter(token_hash=hash_of(token)).first()
    if row is None:
        raise NotFound("Token not found")
    door = door_of(row.cell, row.host)
    return ConsoleTicket(token, str(row.instance_uuid), ConsoleKind(row.kind), row.expires_at), door, row.host


def redeem(token: str, asker_of: AskerOf) -> OpenedConsole:
    """Use a token. Of two who try only one succeeds. Raises NotFound, Forbidden, Conflict, Unavailable."""
    token_hash = hash_of(token)
    with write_tx(API_ALIAS):
        is_ours = _unused().filter(token_hash=token_hash).update(used_at=database_now())
        row = ConsoleToken.objects.filter(token_hash=token_hash).first() if is_ours else None
    if row is None:
        raise NotFound("This link to a console was used before, or is too old. Ask for another one.")
    context = _asker(row, asker_of)
    check(row.token_hash, asker_of)
    opened = OpenedConsole(
        token_hash=row.token_hash,
        instance_uuid=str(row.instance_uuid),
        host=row.host,
        kind=ConsoleKind(row.kind),
        door=door_of(row.cell, row.host),
        seconds=settings.NOVELLA_CONSOLE_SESSION_SECONDS,
        only_watches=row.share_uuid is not None,
    )
    _put_on_record(row, context)
    return opened


def check(token_hash: str, asker_of: AskerOf) -> None:
    """Raise what ends an open console: its right was revoked, or the server is not there any more, or leaves.

    What cannot be known now, because a cell does not answer, ends nothing.
    """
    row = ConsoleToken.objects.filter(token_hash=token_hash).first()
    if row is None:
        raise Forbidden("The right to this console was revoked.")
    context = _asker(row, asker_of)
    found = scatter_gather(
        lambda alias: list(Instance.objects.using(alias).alive().filter(uuid=row.instance_uuid)), [row.cell]
    )
    if found.failures:
        return
    instance = next(iter(found.answers[row.cell]), None)
    if instance is None or not context.may_see_project(instance.project_id):
        raise missing(str(row.instance_uuid))
    if instance.host != row.host:
        raise Conflict("The server has moved to another host. Connect again.")
    _refuse_leaving(str(row.instance_uuid), instance.task_state)


def kinds(context: RequestContext, instance_uuid: str) -> dict[ConsoleKind, str]:
    """Which consoles a server has now: for each kind why it cannot be opened, or nothing."""
    answers: dict[ConsoleKind, str] = {}
    for kind in ConsoleKind:
        try:
            check_right(context)
            place_of(context, instance_uuid, kind)
        except (Forbidden, Conflict, NotSupported, Unavailable) as error:
            answers[kind] = error.message
        else:
            answers[kind] = ""
    return answers


def check_right(context: RequestContext) -> None:
    """Raises Forbidden for who only reads."""
    if not (context.is_admin or "member" in context.roles):
        raise Forbidden("Who only reads in this project cannot open consoles.")


def _asker(row: ConsoleToken, asker_of: AskerOf) -> RequestContext:
    context = asker_of(row.user_id, row.project_id, row.session_key)
    if context is None or context.user_id != row.user_id:
        raise Forbidden("You have signed out, or have no right to this server any more.")
    if row.share_uuid is None:
        check_right(context)
    else:
        _check_watcher(context, row.share_uuid, asker_of)
    return context


def may_watch(context: RequestContext, share: ConsoleShare) -> bool:
    """Who may read in the server's project, and operators."""
    return context.may_see_project(share.project_id) and (context.is_admin or "reader" in context.roles)


def why_ended(share: ConsoleShare, now: datetime) -> str:
    """Why nothing is shared by a link any more; "" while something is. One that was revoked has no time at all."""
    if share.expires_at > now:
        return ""
    return REVOKED if share.expires_at == share.created_at else OVER


def _check_watcher(context: RequestContext, share_uuid: UUID, asker_of: AskerOf) -> None:
    """A share ends with its time, and with the right of whoever made it."""
    share = ConsoleShare.objects.filter(uuid=share_uuid).first()
    if share is None:
        raise Forbidden(REVOKED)
    why = why_ended(share, database_time(API_ALIAS))
    maker = None if why else asker_of(share.user_id, share.user_project_id, "")
    if maker is None:
        raise Forbidden(why or REVOKED)
    check_right(maker)
    if not may_watch(context, share):
        raise Forbidden("You have no right to watch this server any more.")


def place_of(context: RequestContext, instance_uuid: str, kind: ConsoleKind) -> tuple[str, str]:
    """Cell and host of a server whose console can be opened now."""
    view = instances.get(context, instance_uuid)
    if view.is_partial:
        raise CellUnavailable(f"The cell of instance {instance_uuid} does not answer.")
    if not view.host or view.cell == CELL0:
        raise Conflict(f"Instance {instance_uuid} is not ready: it has no host.")
    _refuse_leaving(instance_uuid, view.task_state)
    if CAPABILITY_OF[kind] not in server_actions.capabilities(view.cell, view.host):
        raise NotSupported(f"The host of instance {instance_uuid} offers no console of type {kind}.")
    if view.power_state not in ON:
        raise Conflict(f"Instance {instance_uuid} is not ready: it is off. Start it first.")
    if is_silent(view.cell, view.host):
        raise Conflict(f"The host of instance {instance_uuid} does not answer.")
    door_of(view.cell, view.host)
    return view.cell, view.host


def _refuse_leaving(instance_uuid: str, task_state: str | None) -> None:
    if task_state in LEAVING:
        raise Conflict(f"Instance {instance_uuid} has no console while it is {task_state}.")


def door_of(cell: str, host: str) -> Door:
    """How a host is reached at once. Raises Unavailable."""
    found = scatter_gather(lambda alias: list(ConsoleDoor.objects.using(alias).filter(host=host)), [cell])
    row = next((row for rows in found.answers.values() for row in rows), None)
    if row is None:
        raise Unavailable("The server's host has not said where its consoles are: see NOVELLA_CONSOLE_LISTEN.")
    return Door(row.address, row.tcp_port, row.fingerprint, row.key)


def _unused() -> QuerySet[ConsoleToken]:
    return ConsoleToken.objects.filter(used_at=None, expires_at__gt=database_now())


def _put_on_record(row: ConsoleToken, context: RequestContext) -> None:
    with write_tx(API_ALIAS):
        entry = audit.Entry(
            action="server.open_console" if row.share_uuid is None else "server.watch_console",
            project_id=InstanceMapping.objects.get(instance_uuid=row.instance_uuid).project_id,
            instance_uuid=row.instance_uuid,
            details={"type": row.kind, "host": row.host},
        )
        audit.record(API_ALIAS, context, entry)


def hash_of(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode()).hexdigest()
