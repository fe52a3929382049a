"""Quota requests: a member requests higher limits with a reason, and an operator approves or refuses.

Each request is decided once, by the first operator. Every step is audited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from conductor import events, row_limits
from conductor.api_db.models import QuotaRequest
from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.core.messages import message, word
from conductor.core.page import Page
from conductor.core.phrases import phrase
from conductor.db.transactions import database_now, one_at_a_time, write_tx
from conductor.identity.models import Project
from conductor.network import quotas as network_quotas
from conductor.services.audit import audit
from conductor.services.audit.audit import AuditEntry
from conductor.services.notifications import notices
from conductor.services.quotas import quotas, row_quotas, volume_quotas

OPEN, APPROVED, REFUSED, WITHDRAWN = "open", "approved", "refused", "withdrawn"
STATES = (OPEN, APPROVED, REFUSED, WITHDRAWN)
UNLIMITED = -1
HIGHEST = 2**31 - 1
LONGEST_TEXT = 255
MOST_OPEN = 10  # per project
MOST_CLOSED = 100  # per project: only the audit log has earlier ones
DEFAULT_LIMIT = 50


def _set_compute(context: RequestContext, project_id: str, wanted: Mapping[str, int]) -> None:
    quotas.update(context, project_id, wanted, is_forced=True)  # the limit only ever rises


def _set_volumes(context: RequestContext, project_id: str, wanted: Mapping[str, int]) -> None:
    volume_quotas.update(project_id, wanted)


def _set_network(context: RequestContext, project_id: str, wanted: Mapping[str, int]) -> None:
    network_quotas.set_limits(context, project_id, wanted, is_checked=False)


def _set_rows(context: RequestContext, project_id: str, wanted: Mapping[str, int]) -> None:
    row_quotas.update(context, project_id, wanted)


@dataclass(frozen=True)
class QuotaService:
    """Limits of one service: how they are read, and how they are set."""

    resources: tuple[str, ...]
    limits: Callable[[str], Mapping[str, int]]
    set_limits: Callable[[RequestContext, str, Mapping[str, int]], None]


SERVICES = (
    QuotaService(("instances", "cores", "ram", "server_groups"), quotas.limits, _set_compute),
    QuotaService(("volumes", "gigabytes", "snapshots"), volume_quotas.limits, _set_volumes),
    QuotaService(
        ("network", "subnet", "port", "router", "floatingip", "security_group", "security_group_rule"),
        network_quotas.limits,
        _set_network,
    ),
    QuotaService(row_quotas.OF_PROJECTS, row_quotas.limits, _set_rows),
)
RESOURCES = tuple(name for service in SERVICES for name in service.resources)


@dataclass(frozen=True)
class QuotaRequestView:
    """A quota request: the requested limits, those at the time of the request, and the decision."""

    uuid: str
    project_id: str
    project_name: str
    user_id: str
    user_name: str
    wanted: Mapping[str, int]
    had: Mapping[str, int]
    reason: str
    state: str
    answer: str
    decided_by: str
    created_at: datetime
    decided_at: datetime | None


def limits(project_id: str) -> dict[str, int]:
    """Return the limits whose raise can be requested, by resource."""
    return {
        name: found[name]
        for service in SERVICES
        for found in (service.limits(project_id),)
        for name in service.resources
    }


def ask(context: RequestContext, wanted: Mapping[str, int], reason: str) -> QuotaRequestView:
    """Request higher limits for the current project.

    Raises Forbidden for readers, Invalid naming the field, and Conflict where the same is requested already.
    """
    if "member" not in context.roles:
        raise Forbidden(message("quota_request.reader"))
    checked = _require_text(reason, "reason", "quota_request.say_why")
    with write_tx(API_ALIAS):
        one_at_a_time(API_ALIAS, f"quota requests:{context.project_id}")
        had = _require_more(wanted, limits(context.project_id))
        _require_new(context.project_id, wanted)
        row_limits.keep_newest(
            QuotaRequest.objects.filter(project_id=context.project_id).exclude(state=OPEN), MOST_CLOSED
        )
        row = QuotaRequest.objects.create(
            project_id=context.project_id,
            user_id=context.user_id,
            user_name=context.user_name,
            wanted=dict(wanted),
            had=had,
            reason=checked,
            created_at=database_now(),
        )
        _record(context, row, "create", checked)
        _notify_operators()
    return get(context, str(row.uuid))


def list_of(
    context: RequestContext,
    *,
    state: str = "",
    of_all: bool = False,
    limit: int = DEFAULT_LIMIT,
    marker: str = "",
) -> Page[QuotaRequestView]:
    """Return the project's requests, newest first; for operators those of all projects.

    Raises Forbidden, and Invalid for an unknown state or marker.
    """
    if of_all and not context.is_admin:
        raise Forbidden(phrase("Only operators can see quota requests of other projects."))
    if state and state not in STATES:
        raise Invalid(phrase("state must be one of %(choices)s.", choices=", ".join(STATES)), field="state")
    rows = QuotaRequest.objects.all() if of_all else QuotaRequest.objects.filter(project_id=context.project_id)
    if marker:
        rows = rows.filter(pk__lt=_row(context, marker, "marker").pk)
    if state:
        rows = rows.filter(state=state)
    found = list(rows.order_by("-pk")[: limit + 1])
    names = dict(Project.objects.filter(pk__in={row.project_id for row in found}).values_list("pk", "name"))
    return Page([_view(row, names) for row in found[:limit]], len(found) > limit)


def get(context: RequestContext, request_uuid: str) -> QuotaRequestView:
    """Return a request. Raises NotFound also for another project's; operators see all."""
    row = _row(context, request_uuid)
    return _view(row, dict(Project.objects.filter(pk=row.project_id).values_list("pk", "name")))


def count_open(context: RequestContext) -> int:
    """Return the number of open requests of all projects. Raises Forbidden for callers other than operators."""
    _require_operator(context)
    return QuotaRequest.objects.filter(state=OPEN).count()


def approve(context: RequestContext, request_uuid: str, answer: str = "") -> QuotaRequestView:
    """Set the limits, all or none. A limit that is higher by now stays. Raises NotFound, Forbidden, Conflict,
    Invalid.
    """
    _require_operator(context)
    checked = _require_text(answer, "answer", "quota_request.say_answer", is_needed=False)
    with write_tx(API_ALIAS):
        row = _decide(context, request_uuid, APPROVED, checked)
        for service in SERVICES:
            there = service.limits(row.project_id)
            raised = {
                name: row.wanted[name]
                for name in service.resources
                if name in row.wanted and there[name] != UNLIMITED and row.wanted[name] > there[name]
            }
            if raised:
                service.set_limits(context, row.project_id, raised)
        _record(context, row, "approve", checked)
    return get(context, request_uuid)


def refuse(context: RequestContext, request_uuid: str, answer: str) -> QuotaRequestView:
    """Refuse a request with a reason. Raises what `approve` raises."""
    _require_operator(context)
    checked = _require_text(answer, "answer", "quota_request.say_why_not")
    with write_tx(API_ALIAS):
        _record(context, _decide(context, request_uuid, REFUSED, checked), "refuse", checked)
    return get(context, request_uuid)


def withdraw(context: RequestContext, request_uuid: str) -> QuotaRequestView:
    """Withdraw the caller's own request. Raises NotFound, Forbidden for another user's, and Conflict."""
    if _row(context, request_uuid).user_id != context.user_id:
        raise Forbidden(message("quota_request.not_yours"))
    with write_tx(API_ALIAS):
        _record(context, _decide(context, request_uuid, WITHDRAWN, ""), "withdraw", "")
    return get(context, request_uuid)


def _decide(context: RequestContext, request_uuid: str, state: str, answer: str) -> QuotaRequest:
    """Decide a request atomically. Of two concurrent decisions the second gets Conflict with the first one's result."""
    found = _row(context, request_uuid)
    decided = QuotaRequest.objects.filter(pk=found.pk, state=OPEN).update(
        state=state, answer=answer, decided_by=context.user_name, decided_at=database_now()
    )
    found.refresh_from_db()
    if not decided:
        raise Conflict(message("quota_request.decided", state=word(found.state)))
    _notify_operators()
    if found.user_id != context.user_id:  # the operator who decides needs no notice
        notices.notify(found.user_id, found.project_id, f"quota_request.{state}", found.uuid, answer)
    return found


def _notify_operators() -> None:
    """Make open pages with pending requests reload."""
    events.append(API_ALIAS, events.EventSubject("triage"), "triage.quota_request")


def _row(context: RequestContext, request_uuid: str, field: str = "") -> QuotaRequest:
    known = uuid_or_none(request_uuid)
    rows = (
        QuotaRequest.objects.all() if context.is_admin else QuotaRequest.objects.filter(project_id=context.project_id)
    )
    row = rows.filter(uuid=known).first() if known else None
    if row is None:
        text = f"Quota request {request_uuid[:60]} could not be found."
        raise Invalid(text, field=field) if field else NotFound(text)
    return row


def _view(row: QuotaRequest, names: Mapping[str, str]) -> QuotaRequestView:
    shown = ("project_id", "user_id", "user_name", "wanted", "had", "reason", "state", "answer", "decided_by")
    plain: dict[str, Any] = {name: getattr(row, name) for name in (*shown, "created_at", "decided_at")}
    return QuotaRequestView(uuid=str(row.uuid), project_name=names.get(row.project_id, ""), **plain)


def _require_operator(context: RequestContext) -> None:
    if not context.is_admin:
        raise Forbidden(message("quota_request.operators"))


def _require_text(text: str, field: str, code: str, *, is_needed: bool = True) -> str:
    checked = " ".join(text.split())
    if len(checked) > LONGEST_TEXT or "\0" in checked or (is_needed and not checked):
        raise Invalid(message(code, longest=LONGEST_TEXT), field=field)
    return checked


def _require_more(wanted: Mapping[str, int], there: Mapping[str, int]) -> dict[str, int]:
    """Return the current limits of the requested resources. Each must be lower than the requested one."""
    if not wanted:
        raise Invalid(message("quota_request.nothing_higher"), field="wanted")
    for name, limit in wanted.items():
        if name not in there:
            unknown = message("quota_request.unknown", name=name[:60], names=list(there))
            raise Invalid(unknown, field=f"wanted.{name[:60]}")
        if there[name] == UNLIMITED:
            raise Invalid(message("quota_request.unlimited"), field=f"wanted.{name}")
        if not there[name] < limit <= HIGHEST:
            text = message("quota_request.too_low", limit=there[name], highest=HIGHEST)
            raise Invalid(text, field=f"wanted.{name}")
    return {name: there[name] for name in wanted}


def _require_new(project_id: str, wanted: Mapping[str, int]) -> None:
    requested = list(QuotaRequest.objects.filter(project_id=project_id, state=OPEN))
    if len(requested) >= MOST_OPEN:
        raise Conflict(message("quota_request.too_many_open", most=MOST_OPEN))
    for one in requested:
        same = sorted(set(one.wanted) & set(wanted))
        if same:
            raise Conflict(message("quota_request.same_open", name=one.user_name, what=list(same)))


def _record(context: RequestContext, row: QuotaRequest, verb: str, reason: str) -> None:
    details: Mapping[str, Any] = {"quota_request": str(row.uuid), "wanted": row.wanted, "had": row.had}
    entry = AuditEntry(
        action=f"quota_request.{verb}",
        project_id=row.project_id,
        on_behalf_of=row.user_name if row.user_id != context.user_id else "",
        reason=reason,
        details=details,
    )
    audit.record(API_ALIAS, context, entry)
