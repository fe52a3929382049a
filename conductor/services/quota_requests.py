"""Asking for more than the quota: a member asks and says why, an operator sets the limits or says why not.

Each request is decided once, whoever is first; every step is on record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from conductor import events
from conductor.api_db.models import QuotaRequest
from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.identity.models import Project
from conductor.network import quotas as network_quotas
from conductor.services import audit, quotas, volume_quotas
from conductor.services.audit import Entry
from conductor.services.notifications import notices
from conductor.services.values import Page
from conductor.transactions import database_now, one_at_a_time, write_tx

OPEN, APPROVED, REFUSED, WITHDRAWN = "open", "approved", "refused", "withdrawn"
STATES = (OPEN, APPROVED, REFUSED, WITHDRAWN)
UNLIMITED = -1
HIGHEST = 2**31 - 1
LONGEST_TEXT = 255
MOST_OPEN = 10  # of one project
USUAL_LIMIT = 50


def _set_compute(context: RequestContext, project_id: str, wanted: Mapping[str, int]) -> None:
    quotas.update(context, project_id, wanted, is_forced=True)  # it only ever rises


def _set_volumes(context: RequestContext, project_id: str, wanted: Mapping[str, int]) -> None:
    volume_quotas.update(project_id, wanted)


def _set_network(context: RequestContext, project_id: str, wanted: Mapping[str, int]) -> None:
    network_quotas.set_limits(context, project_id, wanted, is_checked=False)


@dataclass(frozen=True)
class Service:
    """Whose limits these are: how they are read, and how they are set."""

    resources: tuple[str, ...]
    limits: Callable[[str], Mapping[str, int]]
    set_limits: Callable[[RequestContext, str, Mapping[str, int]], None]


SERVICES = (
    Service(("instances", "cores", "ram", "server_groups"), quotas.limits, _set_compute),
    Service(("volumes", "gigabytes", "snapshots"), volume_quotas.limits, _set_volumes),
    Service(
        ("network", "subnet", "port", "router", "floatingip", "security_group", "security_group_rule"),
        network_quotas.limits,
        _set_network,
    ),
)
RESOURCES = tuple(name for service in SERVICES for name in service.resources)


@dataclass(frozen=True)
class QuotaRequestView:
    """A request: the limits that were asked for, those there were then, and what became of it."""

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
    """The limits that may be asked to be raised, by resource."""
    return {
        name: found[name]
        for service in SERVICES
        for found in (service.limits(project_id),)
        for name in service.resources
    }


def ask(context: RequestContext, wanted: Mapping[str, int], reason: str) -> QuotaRequestView:
    """Ask for higher limits of the project in use.

    Raises Forbidden for those who only read, Invalid naming the field, and Conflict where the same is asked already.
    """
    if "member" not in context.roles:
        raise Forbidden("Your role in this project only reads: ask a member of it to ask for more.")
    said = _require_text(reason, "reason", "Say why the project needs more")
    with write_tx(API_ALIAS):
        one_at_a_time(API_ALIAS, f"quota requests:{context.project_id}")
        had = _require_more(wanted, limits(context.project_id))
        _require_new(context.project_id, wanted)
        row = QuotaRequest.objects.create(
            project_id=context.project_id,
            user_id=context.user_id,
            user_name=context.user_name,
            wanted=dict(wanted),
            had=had,
            reason=said,
            created_at=database_now(),
        )
        _record(context, row, "create", said)
        _tell_operators()
    return get(context, str(row.uuid))


def list_of(
    context: RequestContext, *, state: str = "", of_everybody: bool = False, limit: int = USUAL_LIMIT, marker: str = ""
) -> Page[QuotaRequestView]:
    """The project's requests, the newest first; for operators those of all projects.

    Raises Forbidden, and Invalid for a state that there is not and for a marker that is no request's.
    """
    if of_everybody and not context.is_admin:
        raise Forbidden("What other projects ask for is for operators.")
    if state and state not in STATES:
        raise Invalid(f"state is one of {', '.join(STATES)}.", field="state")
    rows = QuotaRequest.objects.all() if of_everybody else QuotaRequest.objects.filter(project_id=context.project_id)
    if marker:
        rows = rows.filter(pk__lt=_row(context, marker, "marker").pk)
    if state:
        rows = rows.filter(state=state)
    found = list(rows.order_by("-pk")[: limit + 1])
    names = dict(Project.objects.filter(pk__in={row.project_id for row in found}).values_list("pk", "name"))
    return Page([_view(row, names) for row in found[:limit]], len(found) > limit)


def get(context: RequestContext, request_uuid: str) -> QuotaRequestView:
    """Raises NotFound also for another project's; operators see all."""
    row = _row(context, request_uuid)
    return _view(row, dict(Project.objects.filter(pk=row.project_id).values_list("pk", "name")))


def count_open(context: RequestContext) -> int:
    """How many wait for an answer in all projects. Raises Forbidden for others than operators."""
    _require_operator(context)
    return QuotaRequest.objects.filter(state=OPEN).count()


def approve(context: RequestContext, request_uuid: str, answer: str = "") -> QuotaRequestView:
    """Set the limits, all or none; one that is higher by now stays. Raises NotFound, Forbidden, Conflict, Invalid."""
    _require_operator(context)
    said = _require_text(answer, "answer", "Say what is to be known", is_needed=False)
    with write_tx(API_ALIAS):
        row = _decide(context, request_uuid, APPROVED, said)
        for service in SERVICES:
            there = service.limits(row.project_id)
            raised = {
                name: row.wanted[name]
                for name in service.resources
                if name in row.wanted and there[name] != UNLIMITED and row.wanted[name] > there[name]
            }
            if raised:
                service.set_limits(context, row.project_id, raised)
        _record(context, row, "approve", said)
    return get(context, request_uuid)


def refuse(context: RequestContext, request_uuid: str, answer: str) -> QuotaRequestView:
    """Leave the limits, and say why. Raises like `approve`."""
    _require_operator(context)
    said = _require_text(answer, "answer", "Say why not: whoever asked reads it")
    with write_tx(API_ALIAS):
        _record(context, _decide(context, request_uuid, REFUSED, said), "refuse", said)
    return get(context, request_uuid)


def withdraw(context: RequestContext, request_uuid: str) -> QuotaRequestView:
    """Take back what oneself has asked for. Raises NotFound, Forbidden for somebody else's, and Conflict."""
    if _row(context, request_uuid).user_id != context.user_id:
        raise Forbidden("Only who has asked may take it back.")
    with write_tx(API_ALIAS):
        _record(context, _decide(context, request_uuid, WITHDRAWN, ""), "withdraw", "")
    return get(context, request_uuid)


def _decide(context: RequestContext, request_uuid: str, state: str, answer: str) -> QuotaRequest:
    """Of two who decide in the same moment one is first, and the other is told what became of it."""
    found = _row(context, request_uuid)
    decided = QuotaRequest.objects.filter(pk=found.pk, state=OPEN).update(
        state=state, answer=answer, decided_by=context.user_name, decided_at=database_now()
    )
    found.refresh_from_db()
    if not decided:
        raise Conflict(f"It is {found.state} already.")
    _tell_operators()
    if found.user_id != context.user_id:  # who decides knows
        notices.tell(found.user_id, found.project_id, f"quota_request.{state}", found.uuid, answer)
    return found


def _tell_operators() -> None:
    """Pages that show what waits for them look again."""
    events.append(API_ALIAS, events.Subject("triage"), "triage.quota_request")


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
        raise Forbidden("Requests for more quota are decided by operators.")


def _require_text(text: str, field: str, advice: str, *, is_needed: bool = True) -> str:
    said = " ".join(text.split())
    if len(said) > LONGEST_TEXT or "\0" in said or (is_needed and not said):
        raise Invalid(f"{advice}, in at most {LONGEST_TEXT} characters.", field=field)
    return said


def _require_more(wanted: Mapping[str, int], there: Mapping[str, int]) -> dict[str, int]:
    """The limits that there are of what is wanted, each of them lower."""
    if not wanted:
        raise Invalid("Name at least one limit that should be higher.", field="wanted")
    for name, limit in wanted.items():
        if name not in there:
            raise Invalid(
                f"There is no limit called {name[:60]}; there are {', '.join(there)}.", field=f"wanted.{name[:60]}"
            )
        if there[name] == UNLIMITED:
            raise Invalid("The project has no limit of this.", field=f"wanted.{name}")
        if not there[name] < limit <= HIGHEST:
            text = f"Ask for more than the {there[name]} that the project may have, and for {HIGHEST} at most."
            raise Invalid(text, field=f"wanted.{name}")
    return {name: there[name] for name in wanted}


def _require_new(project_id: str, wanted: Mapping[str, int]) -> None:
    asked = list(QuotaRequest.objects.filter(project_id=project_id, state=OPEN))
    if len(asked) >= MOST_OPEN:
        raise Conflict(f"{MOST_OPEN} requests of this project wait for an answer already.")
    for one in asked:
        same = sorted(set(one.wanted) & set(wanted))
        if same:
            raise Conflict(f"{one.user_name} has asked for more {', '.join(same)} already: that waits for an answer.")


def _record(context: RequestContext, row: QuotaRequest, verb: str, reason: str) -> None:
    details: Mapping[str, Any] = {"quota_request": str(row.uuid), "wanted": row.wanted, "had": row.had}
    entry = Entry(
        action=f"quota_request.{verb}",
        project_id=row.project_id,
        on_behalf_of=row.user_name if row.user_id != context.user_id else "",
        reason=reason,
        details=details,
    )
    audit.record(API_ALIAS, context, entry)
