"""The audit log: each record says who requested which change of which resource, and its result. Records are only
added.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from django.db import DatabaseError, InterfaceError, connections
from django.db.models import Q

from conductor.api_db.models import InstanceMapping
from conductor.cells.lookup import API_ALIAS, journal_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.core import messages
from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, NovellaError
from conductor.core.identifiers import uuid_or_none
from conductor.core.page import Page
from conductor.core.phrases import phrase
from conductor.db.rows import Rows
from conductor.db.transactions import database_time, write_tx
from conductor.identity.models import User
from conductor.journal.models import AuditRecord, WorkflowRun
from conductor.services.audit import seals

log = logging.getLogger(__name__)

RECORDS = Rows(AuditRecord, "uuid")
GIVEN = tuple(field.attname for field in AuditRecord._meta.concrete_fields if not field.primary_key)

DONE = "done"
REFUSED = "refused"
RESULTS = (DONE, REFUSED)
LONGEST_TEXT = 255
SERVER = "server"
SIGN_IN = "session.sign_in"


@dataclass(frozen=True, kw_only=True)
class AuditEntry:
    """A record to write. `error` is None for a change that succeeded."""

    action: str
    project_id: str
    on_behalf_of: str = ""
    run_uuid: UUID | str | None = None
    instance_uuid: UUID | str | None = None
    reason: str = ""
    error: Exception | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class AuditView:
    """A record of the audit log. `seal` is its number in the chain of its database; None until it is sealed.

    `subject` is the project's resource that was changed, if any: its `kind`, `id` and `name`.
    """

    uuid: str
    action: str
    result: str
    user_id: str
    user_name: str
    actor_project_id: str
    on_behalf_of: str
    project_id: str
    run_uuid: str
    instance_uuid: str
    reason: str
    error: Mapping[str, Any] | None
    details: Mapping[str, Any]
    subject: Mapping[str, str]
    request_id: str
    remote_address: str
    created_at: datetime
    database: str
    signature: str
    seal: int | None
    digest: str


@dataclass(frozen=True, kw_only=True)
class AuditQuery:
    """Filters for audit records. Empty fields do not restrict the list.

    Of the action "port.update", `kind` is "port" and `verb` is "update".
    """

    action: str = ""
    kind: str = ""
    verb: str = ""
    result: str = ""
    user_id: str = ""
    project_id: str = ""
    run_uuid: str = ""
    instance_uuid: str = ""
    request_id: str = ""
    since: datetime | None = None
    without_accepted_actions: bool = False  # a list of workflows beside this one shows the accepted actions on servers
    limit: int = 100
    marker: str = ""


def record(alias: str, context: RequestContext, entry: AuditEntry) -> None:
    """Add a record to the journal in `alias`. Call it inside the transaction of the change."""
    record_all(alias, context, [entry])


def record_all(alias: str, context: RequestContext, entries: Sequence[AuditEntry]) -> None:
    """Add several records at once, with as many statements as for one."""
    if entries:
        now = database_time(alias)  # a value: pages compare it exactly
        rows = [_row(alias, context, entry, now) for entry in entries]
        # The ORM would take ten times as long: a launch of hundreds has a record for each server.
        RECORDS.insert_together(connections[alias], [{name: getattr(row, name) for name in GIVEN} for row in rows])


def _row(alias: str, context: RequestContext, entry: AuditEntry, now: datetime) -> AuditRecord:
    row = AuditRecord(
        uuid=uuid4(),
        action=entry.action,
        result=REFUSED if entry.error is not None else DONE,
        user_id=context.user_id,
        user_name=context.user_name,
        actor_project_id=context.project_id,
        on_behalf_of=entry.on_behalf_of[:LONGEST_TEXT],
        project_id=entry.project_id,
        run_uuid=_uuid(entry.run_uuid),
        instance_uuid=_uuid(entry.instance_uuid),
        reason=entry.reason[:LONGEST_TEXT],
        error=_why(entry.error),
        details=dict(entry.details),
        request_id=context.request_id,
        remote_address=context.remote_address,
        created_at=now,
    )
    row.signature = seals.signed(alias, seals.content_of(row))
    return row


def record_refusal(
    context: RequestContext, action: str, instance_uuid: UUID | str, error: NovellaError, **details: Any
) -> None:
    """Audit that a server action was refused, in a transaction of its own after the refused one is rolled back.

    `action` is the Compute API's name ("reboot"). If the record can't be written, it goes to the server's log, and the
    caller's answer stays the same.
    """
    wanted = uuid_or_none(str(instance_uuid))
    try:
        with write_tx(API_ALIAS):
            mapping = InstanceMapping.objects.filter(instance_uuid=wanted).first() if wanted else None
            entry = AuditEntry(
                action=f"server.{action}"[:64],
                project_id=mapping.project_id if mapping else context.project_id,
                instance_uuid=wanted,
                error=error,
                details=details,
            )
            record(API_ALIAS, context, entry)
    except (DatabaseError, InterfaceError):
        log.exception("audit record lost: action=%s instance=%s request=%s", action, wanted, context.request_id)


def record_server_action(
    alias: str,
    context: RequestContext,
    action: str,
    servers: Mapping[str, str],
    *,
    project_id: str = "",
    run_uuid: UUID | str | None = None,
    **details: Any,
) -> None:
    """Audit that an action on servers was accepted. Call it inside the transaction that accepts it.

    Args:
        alias: The database of that transaction.
        action: The Compute API's name of the action ("create", "reboot", "delete").
        servers: The name of each server by its uuid; "" where it isn't known.
        project_id: The project that owns the servers. The caller's project if empty.
    """
    record_all(
        alias,
        context,
        [
            AuditEntry(
                action=f"{SERVER}.{action}"[:64],
                project_id=project_id or context.project_id,
                run_uuid=run_uuid,
                instance_uuid=uuid,
                details={**details, "subject": {"kind": SERVER, "id": uuid, "name": name}},
            )
            for uuid, name in servers.items()
        ],
    )


def record_sign_in(
    context: RequestContext, *, method: str, account: str = "", error: NovellaError | None = None, **details: Any
) -> None:
    """Audit a sign-in, or with `error` a failed one; in a transaction of its own.

    Args:
        context: The user who signed in with the address of the request; without a user where the sign-in failed.
        method: How: "password", "application_credential", "provider", …
        account: The account that the caller claimed, where the sign-in failed; no secret.

    If the record can't be written, it goes to the process's log, and the caller's answer stays the same.
    """
    fields = {"method": method, **details}
    try:
        if account:  # a name of no account may be a password in the wrong field
            is_known = User.objects.filter(Q(id=account) | Q(username=account)).exists()
            fields["account"] = account if is_known else "unknown"
        with write_tx(API_ALIAS):
            record(API_ALIAS, context, AuditEntry(action=SIGN_IN, project_id="", error=error, details=fields))
    except (DatabaseError, InterfaceError):
        log.exception("audit record lost: action=%s user=%s request=%s", SIGN_IN, context.user_id, context.request_id)


def of_run(
    run: WorkflowRun, action: str, reason: str, details: Mapping[str, Any], error: Exception | None
) -> AuditEntry:
    """Return an entry about a run. Its project and owner are those of the run."""
    return AuditEntry(
        action=f"workflow.{action}",
        project_id=run.project_id,
        on_behalf_of=run.user_name or run.user_id,
        run_uuid=run.uuid,
        instance_uuid=run.instance_uuid,
        reason=reason,
        error=error,
        details=details,
    )


def list_records(context: RequestContext, query: AuditQuery) -> Page[AuditView]:
    """Return records, newest first: all for administrators; for others those about their project's resources.

    Raises Invalid for a filter that can match nothing.
    """
    wanted = _wanted(context, query)
    limit = query.limit

    def ask(alias: str) -> list[AuditRecord]:
        return list(AuditRecord.objects.using(alias).filter(wanted).order_by("-created_at", "uuid")[: limit + 1])

    found = scatter_gather(ask, journal_aliases())
    rows = [row for answer in found.answers.values() for row in answer]
    rows.sort(key=lambda row: (-row.created_at.timestamp(), str(row.uuid)))
    shown = [_view(context, row) for row in rows[:limit]]
    return Page(items=shown, has_more=len(rows) > limit, missing_cells=found.failures)


def _wanted(context: RequestContext, query: AuditQuery) -> Q:
    wanted = Q() if context.is_admin else Q(project_id=context.project_id)
    if query.result and query.result not in RESULTS:
        raise Invalid(
            phrase(
                "Unknown result %(result)s. Use one of %(choices)s.",
                result=query.result[:60],
                choices=", ".join(RESULTS),
            ),
            field="result",
        )
    for name in ("action", "result", "user_id", "project_id", "request_id"):
        if getattr(query, name):
            wanted &= Q(**{name: getattr(query, name)})
    wanted &= _of_actions(query)
    for name in ("run_uuid", "instance_uuid"):
        text = getattr(query, name)
        if text:
            found = uuid_or_none(text)
            if found is None:
                raise Invalid(phrase("%(text)s is not a UUID.", text=text[:60]), field=name)
            wanted &= Q(**{name: found})
    if query.since is not None:
        wanted &= Q(created_at__gte=query.since)
    return wanted & _after(context, query.marker)


def _of_actions(query: AuditQuery) -> Q:
    """Return the condition for the kind and verb of the action in a query."""
    wanted = Q()
    if query.kind:
        wanted &= Q(action__startswith=f"{query.kind}.")
    if query.verb:
        wanted &= Q(action__endswith=f".{query.verb}")
    if query.without_accepted_actions:
        wanted &= ~Q(action__startswith=f"{SERVER}.", result=DONE, run_uuid__isnull=False)
    return wanted


def _after(context: RequestContext, marker: str) -> Q:
    if not marker:
        return Q()
    wanted = uuid_or_none(marker)
    seen = Q() if context.is_admin else Q(project_id=context.project_id)
    found = scatter_gather(
        lambda alias: list(AuditRecord.objects.using(alias).filter(seen, uuid=wanted)) if wanted else [],
        journal_aliases(),
    )
    anchor = next((row for rows in found.answers.values() for row in rows), None)
    if anchor is None:
        raise Invalid(phrase("Marker %(marker)s could not be found.", marker=marker[:60]), field="marker")
    return Q(created_at__lt=anchor.created_at) | Q(created_at=anchor.created_at, uuid__gt=anchor.uuid)


def _uuid(value: UUID | str | None) -> UUID | None:
    return uuid_or_none(str(value)) if value else None


def _why(error: Exception | None) -> dict[str, Any] | None:
    """Describe an error. Only our own errors show their text, as the text of others may hold paths, addresses or
    secrets.
    """
    if error is None:
        return None
    text = error.message if isinstance(error, NovellaError) else ""
    return {"class": type(error).__name__, **messages.fields(messages.shortened(text, 1000))}


def _view(context: RequestContext, row: AuditRecord) -> AuditView:
    """Return a record as the caller may see it. Members see no address and no inner details of an operator."""
    is_open = context.is_admin or row.user_id == context.user_id
    return AuditView(
        uuid=str(row.uuid),
        action=row.action,
        result=row.result,
        user_id=row.user_id,
        user_name=row.user_name,
        actor_project_id=row.actor_project_id,
        on_behalf_of=row.on_behalf_of,
        project_id=row.project_id,
        run_uuid=str(row.run_uuid or ""),
        instance_uuid=str(row.instance_uuid or ""),
        reason=row.reason,
        error=messages.restored(row.error),
        details=row.details if context.is_admin else {},
        subject=row.details.get("subject") or {},
        request_id=row.request_id,
        remote_address=row.remote_address if is_open else "",
        created_at=row.created_at,
        database=str(row._state.db),
        signature=row.signature,
        seal=row.seal,
        digest=row.digest,
    )
