"""Actions of operators on a compute host: one table of what they do, when they are available, and their audit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime

from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound, NovellaError
from conductor.core.messages import message, sentences
from conductor.core.phrases import phrase
from conductor.db.transactions import write_tx
from conductor.services.audit import audit
from conductor.services.audit.audit import LONGEST_TEXT, AuditEntry
from conductor.services.fleet import canaries, drains, enabling, evacuations, fleet, host_details
from conductor.services.fleet.drains import DrainRequest
from conductor.services.hosts.types import ServiceView

MOST_HOSTS = 50  # that can be drained together


@dataclass(frozen=True)
class HostActionFacts:
    """A host's facts that decide which actions are available."""

    state: str
    service: ServiceView


@dataclass(frozen=True)
class AvailableAction:
    """One action as a page shows it. If `confirm` is not empty, the user must type it."""

    id: str
    title: str
    does: str
    enabled: bool
    why_not: str
    is_danger: bool
    confirm: str = ""


Do = Callable[[RequestContext, ServiceView, str], str]


@dataclass(frozen=True)
class _HostAction:
    id: str
    title: str
    does: str
    why_not: Callable[[HostActionFacts], str]
    execute: Do
    is_danger: bool = False
    is_confirmed: bool = False
    is_apart: bool = False  # starts workflows, each in a transaction of its own


def list_actions(context: RequestContext, host: str) -> list[AvailableAction]:
    """Return every action. One that is refused now has the reason. Raises NotFound, Forbidden."""
    facts = _facts(context, host)
    return [_available(action, facts) for action in ACTIONS]


def get_action(context: RequestContext, host: str, action_id: str) -> AvailableAction:
    """Return one action. Raises NotFound, also for an unknown one."""
    return _available(_action(action_id), _facts(context, host))


def execute(context: RequestContext, host: str, action_id: str, *, reason: str, confirm: str = "") -> str:
    """Execute an action and return a sentence on the result. Refusals are audited too.

    Raises NotFound, Forbidden, Invalid for a missing reason or confirmation, Conflict where the host's state forbids
    it.
    """
    action, service = _action(action_id), host_details.service_of(context, host)
    try:
        _check(action, _facts(context, host), reason, confirm)
        with nullcontext() if action.is_apart else write_tx(service.cell):
            reported = action.execute(context, service, reason)
            _keep(service.cell, context, _entry(context, host, action.id, reason))
    except NovellaError as error:
        refuse(context, host, action.id, reason, error)
        raise
    return reported


def drain(context: RequestContext, host: str, requested: DrainRequest, *, reason: str) -> str:
    """Drain a host and return the workflow's uuid.

    Raises Invalid for a missing reason, and what drains.begin raises.
    """
    service = host_details.service_of(context, host)
    try:
        require_reason(reason)
        with write_tx(service.cell):
            run_uuid = drains.begin(context, host, requested)
            entry = _entry(context, host, "drain", reason, run_uuid=run_uuid)
            _keep(service.cell, context, _with(entry, _until(requested.deadline_at)))
    except NovellaError as error:
        refuse(context, host, "drain", reason, error)
        raise
    return run_uuid


def drain_all(context: RequestContext, names: Sequence[str], requested: DrainRequest, *, reason: str) -> list[str]:
    """Drain several hosts together, all of them or none. Return the workflows' uuids.

    All are disabled before the first server moves, so that none moves to another draining host. Raises what `drain`
    does, naming the host.
    """
    hosts = list(dict.fromkeys(names))
    if not 1 <= len(hosts) <= MOST_HOSTS:
        raise Invalid(phrase("Select 1 to %(most)s hosts.", most=MOST_HOSTS), field="host")
    cells = {host: host_details.service_of(context, host).cell for host in hosts}
    run_uuids: list[str] = []
    host = hosts[0]
    try:
        require_reason(reason)
        with ExitStack() as stack:
            for cell in sorted(set(cells.values())):  # in one order, to avoid deadlocks
                stack.enter_context(write_tx(cell))
            for host in hosts:
                run_uuids.append(drains.begin(context, host, requested))
                entry = _entry(context, host, "drain", reason, run_uuid=run_uuids[-1])
                _keep(cells[host], context, _with(entry, _until(requested.deadline_at)))
    except NovellaError as error:
        refuse(context, host, "drain", reason, error)
        raise
    return run_uuids


def note(context: RequestContext, host: str, text: str) -> None:
    """Set the maintenance note of a host that is out of service, and audit it. Raises what drains.note raises."""
    service = host_details.service_of(context, host)
    try:
        with write_tx(service.cell):
            drains.note(context, host, text)
            changed = {"note": text[:LONGEST_TEXT], "before": service.maintenance_note[:LONGEST_TEXT]}
            _keep(service.cell, context, _with(_entry(context, host, "note", ""), changed))
    except NovellaError as error:
        refuse(context, host, "note", "", error)
        raise


def steer(context: RequestContext, host: str, action: str, *, deadline_at: datetime | None = None) -> None:
    """Pause, resume, stop or cancel a drain, and audit it. Raises what drains.act raises."""
    service = host_details.service_of(context, host)
    try:
        with write_tx(service.cell):
            view = drains.act(context, host, action, deadline_at=deadline_at)
            entry = _entry(context, host, f"drain.{action}", "", run_uuid=view.run_uuid)
            _keep(service.cell, context, _with(entry, _until(deadline_at)))
    except NovellaError as error:
        refuse(context, host, f"drain.{action}"[:60], "", error)
        raise


def _keep(cell: str, context: RequestContext, entry: AuditEntry) -> None:
    with write_tx(cell):
        audit.record(cell, context, entry)


def refuse(context: RequestContext, host: str, action: str, reason: str, error: NovellaError) -> None:
    """Audit a refusal, in a transaction of its own after the refused one was rolled back."""
    _keep(API_ALIAS, context, _entry(context, host, action, reason, error=error))


def _entry(
    context: RequestContext,
    host: str,
    action: str,
    reason: str,
    *,
    error: Exception | None = None,
    run_uuid: str | None = None,
) -> AuditEntry:
    return AuditEntry(
        action=f"host.{action}"[:64],
        project_id=context.project_id,
        reason=reason,
        error=error,
        run_uuid=run_uuid,
        details={"host": host[:LONGEST_TEXT]},
    )


def _with(entry: AuditEntry, details: Mapping[str, str]) -> AuditEntry:
    return replace(entry, details={**entry.details, **details})


def _until(deadline_at: datetime | None) -> dict[str, str]:
    return {"deadline_at": deadline_at.isoformat()} if deadline_at else {}


def _check(action: _HostAction, facts: HostActionFacts, reason: str, confirm: str) -> None:
    refused = action.why_not(facts)
    if refused:
        raise Conflict(refused)
    require_reason(reason)
    if action.is_confirmed and confirm != facts.service.host:
        raise Invalid(phrase("Type %(name)s to confirm.", name=facts.service.host), field="confirm")


def require_reason(reason: str) -> None:
    """Raise Invalid where the reason is missing or too long."""
    if not reason.strip():
        raise Invalid(phrase("Enter a reason. It is recorded in the audit log."), field="reason")
    if len(reason) > LONGEST_TEXT:
        raise Invalid(phrase("Enter a reason of at most %(longest)s characters.", longest=LONGEST_TEXT), field="reason")


def _facts(context: RequestContext, host: str) -> HostActionFacts:
    service = host_details.service_of(context, host)
    return HostActionFacts(host_details.state_of(context, host), service)


def _action(action_id: str) -> _HostAction:
    for action in ACTIONS:
        if action.id == action_id:
            return action
    raise NotFound(phrase("Hosts have no action %(action)s.", action=action_id[:60]))


def _available(action: _HostAction, facts: HostActionFacts) -> AvailableAction:
    refused = action.why_not(facts)
    confirm = facts.service.host if action.is_confirmed else ""
    return AvailableAction(action.id, action.title, action.does, not refused, refused, action.is_danger, confirm)


def _close(context: RequestContext, service: ServiceView, reason: str) -> str:
    enabling.update(context, service, is_disabled=True, disabled_reason=reason)
    return message("host.closed", host=service.host)


def _open(context: RequestContext, service: ServiceView, reason: str) -> str:
    drains.open_again(context, service.host)
    return message("host.opened", host=service.host)


def _try(context: RequestContext, service: ServiceView, reason: str) -> str:
    canaries.begin(context, service.host)
    return message("host.canary", host=service.host)


def _why_not_try(facts: HostActionFacts) -> str:
    return _why_not_open(facts) or ("" if facts.service.is_up else message("host.agent_unresponsive"))


def _why_not_open(facts: HostActionFacts) -> str:
    if facts.state == fleet.DRAINING:
        return message("host.draining")
    return "" if facts.service.is_disabled else message("host.in_service")


def _fence(context: RequestContext, service: ServiceView, reason: str) -> str:
    enabling.update(context, service, is_forced_down=True)
    return message("host.marked_off", host=service.host)


def _unfence(context: RequestContext, service: ServiceView, reason: str) -> str:
    enabling.update(context, service, is_forced_down=False)
    return message("host.marked_on", host=service.host)


def _evacuate(context: RequestContext, service: ServiceView, reason: str) -> str:
    begun, refused = evacuations.begin_all(context, service)
    reported = message("host.evacuated", count=len(begun))
    reasons = sorted(set(refused.values()))
    return (
        sentences(reported, message("host.not_evacuated", count=len(refused), reasons=reasons)) if refused else reported
    )


def _why_not_evacuate(facts: HostActionFacts) -> str:
    try:
        evacuations.require_fenced(facts.service.cell, facts.service.host)
    except NovellaError as error:
        return error.message
    return ""


ACTIONS = (
    _HostAction(
        "close",
        "Disable",
        "New servers aren't placed on this host. Existing servers stay and keep running.",
        lambda facts: message("host.closed_already") if facts.service.is_disabled else "",
        _close,
    ),
    _HostAction(
        "open",
        "Enable",
        "The scheduler can place servers on this host again.",
        _why_not_open,
        _open,
    ),
    _HostAction(
        "try",
        "Test with a canary and enable",
        (
            "Builds and deletes a small test server on the host. If this succeeds, the host is enabled; "
            "otherwise it stays disabled."
        ),
        _why_not_try,
        _try,
    ),
    _HostAction(
        "fence",
        "Mark as powered off",
        (
            "Confirms that the host has no power, so its servers can be evacuated. If its servers still run, "
            "they would run twice."
        ),
        lambda facts: message("host.off_already") if facts.service.is_forced_down else "",
        _fence,
        is_danger=True,
        is_confirmed=True,
    ),
    _HostAction(
        "unfence",
        "Mark as back online",
        "Trusts the host's agent again. Copies of servers that were evacuated are destroyed on the host.",
        lambda facts: "" if facts.service.is_forced_down else message("host.not_off"),
        _unfence,
    ),
    _HostAction(
        "evacuate",
        "Evacuate",
        (
            "Rebuilds all servers of this failed host on other hosts: from their volumes, or from their "
            "image, without the data on local disks."
        ),
        _why_not_evacuate,
        _evacuate,
        is_danger=True,
        is_confirmed=True,
        is_apart=True,
    ),
)
