"""Access to consoles: short-lived tokens that open one console once, and checks that close it again."""

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
from conductor.cell_db.models import ConsoleAddress, Instance
from conductor.cells.hosts import is_unresponsive
from conductor.cells.lookup import API_ALIAS, CELL0
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.consoles import CAPABILITY_OF, ConsoleKind
from conductor.core.context import RequestContext
from conductor.core.errors import CellUnavailable, Conflict, Forbidden, NotFound, NotSupported, Unavailable
from conductor.core.identifiers import new_request_id
from conductor.core.messages import message, word
from conductor.core.phrases import phrase
from conductor.core.states import PowerState, TaskState
from conductor.db.transactions import database_now, database_time, write_tx
from conductor.services.accounts import sign_in
from conductor.services.audit import audit
from conductor.services.servers import actions, instances
from conductor.services.servers.queries import missing

ON = (PowerState.RUNNING, PowerState.PAUSED)
LEAVING = frozenset({TaskState.DELETING, TaskState.SOFT_DELETING, TaskState.MIGRATING})
OVER = message("console_share.expired")
REVOKED = message("console_share.revoked")
KEPT_SECONDS = 30 * 86_400.0  # the longest time for which a console may be open, as its row is needed until then

# Returns the current context of a session of the portal, by its key; None when the session or the right is gone.
CallerOf = Callable[[str], RequestContext | None]


@dataclass(frozen=True)
class ConsoleTicket:
    """A token as shown, once, to the caller who requested it."""

    token: str
    instance_uuid: str
    kind: ConsoleKind
    expires_at: datetime


@dataclass(frozen=True)
class ConsoleEndpoint:
    """Address and key of the console service of a guest's host."""

    address: str
    port: int
    fingerprint: str
    key: str


@dataclass(frozen=True)
class OpenedConsole:
    """A console that a token has opened. `seconds` is how long it may stay open; 0 means no limit.

    With `only_watches` the user sees the console, but no input reaches the guest.
    """

    token_hash: str
    instance_uuid: str
    host: str
    kind: ConsoleKind
    endpoint: ConsoleEndpoint
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
    """Create a token for one console of a server, valid for `seconds` (0: as configured). With `share` it is for a
    watcher.

    Raises:
        NotFound: the server is unknown.
        Forbidden: the caller is a reader.
        Conflict: the guest is off, moving or without a host.
        NotSupported: its host has no such console.
        Unavailable: the console cannot be reached.
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
        token_digest=context.token_digest,
        created_at=now,
        expires_at=now + timedelta(seconds=seconds or settings.NOVELLA_CONSOLE_TOKEN_SECONDS),
        share_uuid=share.uuid if share else None,
    )
    with write_tx(API_ALIAS):
        ConsoleToken.objects.filter(expires_at__lt=database_now(-KEPT_SECONDS)).delete()
        ConsoleToken.objects.filter(expires_at__lt=database_now(), used_at=None).delete()
        row.save(force_insert=True)
    return ConsoleTicket(token, instance_uuid, kind, row.expires_at)


def show(token: str) -> tuple[ConsoleTicket, ConsoleEndpoint, str]:
    """Return the console that an unused token opens, with the host's name, without using the token. Raises NotFound."""
    row = _unused().filter(token_hash=hash_of(token)).first()
    if row is None:
        raise NotFound(phrase("Token not found"))
    endpoint = endpoint_of(row.cell, row.host)
    return ConsoleTicket(token, str(row.instance_uuid), ConsoleKind(row.kind), row.expires_at), endpoint, row.host


def redeem(token: str, caller_of: CallerOf) -> OpenedConsole:
    """Use a token. Of two concurrent uses only one succeeds. Raises NotFound, Forbidden, Conflict, Unavailable."""
    token_hash = hash_of(token)
    with write_tx(API_ALIAS):
        is_ours = _unused().filter(token_hash=token_hash).update(used_at=database_now())
        row = ConsoleToken.objects.filter(token_hash=token_hash).first() if is_ours else None
    if row is None:
        raise NotFound(phrase("This console link was already used or has expired. Request a new one."))
    context = _caller(row, caller_of)
    check(row.token_hash, caller_of)
    opened = OpenedConsole(
        token_hash=row.token_hash,
        instance_uuid=str(row.instance_uuid),
        host=row.host,
        kind=ConsoleKind(row.kind),
        endpoint=endpoint_of(row.cell, row.host),
        seconds=settings.NOVELLA_CONSOLE_SESSION_SECONDS,
        only_watches=row.share_uuid is not None,
    )
    _put_on_record(row, context)
    return opened


def check(token_hash: str, caller_of: CallerOf) -> None:
    """Raise the reason to close an open console: its right was revoked, or the server is gone or moving.

    Facts that cannot be read, because a cell is down, are no reason.
    """
    row = ConsoleToken.objects.filter(token_hash=token_hash).first()
    if row is None:
        raise Forbidden(phrase("Access to this console was revoked."))
    context = _caller(row, caller_of)
    found = scatter_gather(
        lambda alias: list(Instance.objects.using(alias).alive().filter(uuid=row.instance_uuid)), [row.cell]
    )
    if found.failures:
        return
    instance = next(iter(found.answers[row.cell]), None)
    if instance is None or not context.may_see_project(instance.project_id):
        raise missing(str(row.instance_uuid))
    if instance.host != row.host:
        raise Conflict(phrase("The server has moved to another host. Connect again."))
    _refuse_leaving(str(row.instance_uuid), instance.task_state)


def kinds(context: RequestContext, instance_uuid: str) -> dict[ConsoleKind, str]:
    """Return, for each kind of console, the reason why it cannot be opened now. Empty for a kind that can."""
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
    """Raise Forbidden for a caller with the reader role only."""
    if not (context.is_admin or "member" in context.roles):
        raise Forbidden(message("console.reader"))


def _caller(row: ConsoleToken, caller_of: CallerOf) -> RequestContext:
    if row.session_key:
        context = caller_of(row.session_key)
    elif row.token_digest:
        context = sign_in.context_of_token(row.token_digest, new_request_id())
    else:
        context = sign_in.context_for(row.user_id, row.project_id, new_request_id())
    if context is None or context.user_id != row.user_id:
        raise Forbidden(phrase("You have signed out, or no longer have access to this server."))
    if row.share_uuid is None:
        check_right(context)
    else:
        _check_watcher(context, row.share_uuid)
    return context


def may_watch(context: RequestContext, share: ConsoleShare) -> bool:
    """Whether the caller may watch: readers of the server's project, and operators."""
    return context.may_see_project(share.project_id) and (context.is_admin or "reader" in context.roles)


def why_ended(share: ConsoleShare, now: datetime) -> str:
    """Return the reason why a share has ended. Empty while it is active. A revoked one expires at its creation time."""
    if share.expires_at > now:
        return ""
    return REVOKED if share.expires_at == share.created_at else OVER


def _check_watcher(context: RequestContext, share_uuid: UUID) -> None:
    """Check that a share has not expired and that its creator still has the right to the console."""
    share = ConsoleShare.objects.filter(uuid=share_uuid).first()
    if share is None:
        raise Forbidden(REVOKED)
    why = why_ended(share, database_time(API_ALIAS))
    named = (share.user_id, share.user_project_id, new_request_id(), share.delegated_by)
    maker = None if why else sign_in.context_for(*named)
    if maker is None:
        raise Forbidden(why or REVOKED)
    check_right(maker)
    if not may_watch(context, share):
        raise Forbidden(phrase("You no longer have access to this server."))


def place_of(context: RequestContext, instance_uuid: str, kind: ConsoleKind) -> tuple[str, str]:
    """Return the cell and host of a server whose console can be opened now."""
    view = instances.get(context, instance_uuid)
    if view.is_partial:
        raise CellUnavailable(phrase("The cell of instance %(instance)s does not answer.", instance=instance_uuid))
    if not view.host or view.cell == CELL0:
        raise Conflict(message("console.no_host", server=instance_uuid))
    _refuse_leaving(instance_uuid, view.task_state)
    if CAPABILITY_OF[kind] not in actions.capabilities(view.cell, view.host):
        raise NotSupported(message("console.no_kind", server=instance_uuid, kind=kind))
    if view.power_state not in ON:
        raise Conflict(message("console.off", server=instance_uuid))
    if is_unresponsive(view.cell, view.host):
        raise Conflict(message("console.host_unresponsive", server=instance_uuid))
    endpoint_of(view.cell, view.host)
    return view.cell, view.host


def _refuse_leaving(instance_uuid: str, task_state: str | None) -> None:
    if task_state in LEAVING:
        raise Conflict(message("console.busy", server=instance_uuid, state=word(task_state or "")))


def endpoint_of(cell: str, host: str) -> ConsoleEndpoint:
    """Return the console endpoint of a host. Raises Unavailable."""
    found = scatter_gather(lambda alias: list(ConsoleAddress.objects.using(alias).filter(host=host)), [cell])
    row = next((row for rows in found.answers.values() for row in rows), None)
    if row is None:
        raise Unavailable(message("console.no_endpoint"))
    return ConsoleEndpoint(row.address, row.tcp_port, row.fingerprint, row.key)


def _unused() -> QuerySet[ConsoleToken]:
    return ConsoleToken.objects.filter(used_at=None, expires_at__gt=database_now())


def _put_on_record(row: ConsoleToken, context: RequestContext) -> None:
    with write_tx(API_ALIAS):
        entry = audit.AuditEntry(
            action="server.open_console" if row.share_uuid is None else "server.watch_console",
            project_id=InstanceMapping.objects.get(instance_uuid=row.instance_uuid).project_id,
            instance_uuid=row.instance_uuid,
            details={"type": row.kind, "host": row.host},
        )
        audit.record(API_ALIAS, context, entry)


def hash_of(token: str) -> str:
    """Return the stored hash of a token."""
    return hashlib.sha256(token.encode()).hexdigest()
