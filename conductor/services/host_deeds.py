"""What operators may do to a compute host: one table for what is offered, why not, and what is put on record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime

from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound, NovellaError
from conductor.services import audit, canaries, drains, evacuations, fleet, host_closing, host_details
from conductor.services.audit import LONGEST_TEXT, Entry
from conductor.services.drains import Wish
from conductor.services.values import ServiceView
from conductor.transactions import write_tx

MOST_HOSTS = 50  # that are emptied together


@dataclass(frozen=True)
class Facts:
    """What the rules ask about a host."""

    state: str
    service: ServiceView


@dataclass(frozen=True)
class Offer:
    """One deed as a page offers it. `confirm` must be typed where it is not empty."""

    id: str
    title: str
    does: str
    enabled: bool
    why_not: str
    is_danger: bool
    confirm: str = ""


Do = Callable[[RequestContext, ServiceView, str], str]


@dataclass(frozen=True)
class _Deed:
    id: str
    title: str
    does: str
    why_not: Callable[[Facts], str]
    do: Do
    is_danger: bool = False
    is_confirmed: bool = False
    is_apart: bool = False  # begins workflows, each in a transaction of its own


def offers(context: RequestContext, host: str) -> list[Offer]:
    """Every deed, with why not where it is refused now. Raises NotFound, Forbidden."""
    facts = _facts(context, host)
    return [_offer(deed, facts) for deed in DEEDS]


def offer(context: RequestContext, host: str, deed_id: str) -> Offer:
    """One deed. Raises NotFound, also for one that there is not."""
    return _offer(_deed(deed_id), _facts(context, host))


def do(context: RequestContext, host: str, deed_id: str, *, reason: str, confirm: str = "") -> str:
    """Do it; what was done, as a sentence. Refusals are put on record too.

    Raises NotFound, Forbidden, Invalid for a missing reason or confirmation, Conflict where its state forbids it.
    """
    deed, service = _deed(deed_id), host_details.service_of(context, host)
    try:
        _check(deed, _facts(context, host), reason, confirm)
        with nullcontext() if deed.is_apart else write_tx(service.cell):
            said = deed.do(context, service, reason)
            _keep(service.cell, context, _entry(context, host, deed.id, reason))
    except NovellaError as error:
        refuse(context, host, deed.id, reason, error)
        raise
    return said


def drain(context: RequestContext, host: str, wish: Wish, *, reason: str) -> str:
    """Empty a host; the workflow's uuid. Raises Invalid for a missing reason, and what drains.begin does."""
    service = host_details.service_of(context, host)
    try:
        require_reason(reason)
        with write_tx(service.cell):
            run_uuid = drains.begin(context, host, wish)
            entry = _entry(context, host, "drain", reason, run_uuid=run_uuid)
            _keep(service.cell, context, _with(entry, _until(wish.deadline_at)))
    except NovellaError as error:
        refuse(context, host, "drain", reason, error)
        raise
    return run_uuid


def drain_all(context: RequestContext, names: Sequence[str], wish: Wish, *, reason: str) -> list[str]:
    """Empty several hosts together, all of them or none; the workflows' uuids.

    All are closed before the first server moves, so that none moves onto a host that is emptied too. Raises what
    `drain` does, naming the host.
    """
    hosts = list(dict.fromkeys(names))
    if not 1 <= len(hosts) <= MOST_HOSTS:
        raise Invalid(f"Name 1 to {MOST_HOSTS} hosts to empty together.", field="host")
    cells = {host: host_details.service_of(context, host).cell for host in hosts}
    run_uuids: list[str] = []
    host = hosts[0]
    try:
        require_reason(reason)
        with ExitStack() as stack:
            for cell in sorted(set(cells.values())):  # in one order, as others who take several do
                stack.enter_context(write_tx(cell))
            for host in hosts:
                run_uuids.append(drains.begin(context, host, wish))
                entry = _entry(context, host, "drain", reason, run_uuid=run_uuids[-1])
                _keep(cells[host], context, _with(entry, _until(wish.deadline_at)))
    except NovellaError as error:
        refuse(context, host, "drain", reason, error)
        raise
    return run_uuids


def note(context: RequestContext, host: str, text: str) -> None:
    """Say on a host that is out of service what is done to it, on record. Raises what drains.note does."""
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
    """Pause, resume, stop or cancel a drain, on record. Raises what drains.act does."""
    service = host_details.service_of(context, host)
    try:
        with write_tx(service.cell):
            view = drains.act(context, host, action, deadline_at=deadline_at)
            entry = _entry(context, host, f"drain.{action}", "", run_uuid=view.run_uuid)
            _keep(service.cell, context, _with(entry, _until(deadline_at)))
    except NovellaError as error:
        refuse(context, host, f"drain.{action}"[:60], "", error)
        raise


def _keep(cell: str, context: RequestContext, entry: Entry) -> None:
    with write_tx(cell):
        audit.record(cell, context, entry)


def refuse(context: RequestContext, host: str, action: str, reason: str, error: NovellaError) -> None:
    """Put a refusal on record, in a transaction of its own after the refused one was undone."""
    _keep(API_ALIAS, context, _entry(context, host, action, reason, error=error))


def _entry(
    context: RequestContext,
    host: str,
    action: str,
    reason: str,
    *,
    error: Exception | None = None,
    run_uuid: str | None = None,
) -> Entry:
    return Entry(
        action=f"host.{action}"[:64],
        project_id=context.project_id,
        reason=reason,
        error=error,
        run_uuid=run_uuid,
        details={"host": host[:LONGEST_TEXT]},
    )


def _with(entry: Entry, details: Mapping[str, str]) -> Entry:
    return replace(entry, details={**entry.details, **details})


def _until(deadline_at: datetime | None) -> dict[str, str]:
    return {"deadline_at": deadline_at.isoformat()} if deadline_at else {}


def _check(deed: _Deed, facts: Facts, reason: str, confirm: str) -> None:
    refused = deed.why_not(facts)
    if refused:
        raise Conflict(refused)
    require_reason(reason)
    if deed.is_confirmed and confirm != facts.service.host:
        raise Invalid(f"Type {facts.service.host} to confirm.", field="confirm")


def require_reason(reason: str) -> None:
    """Raises Invalid where it is missing, or too long to be kept."""
    if not reason.strip():
        raise Invalid("Say why: others will ask.", field="reason")
    if len(reason) > LONGEST_TEXT:
        raise Invalid(f"A reason has at most {LONGEST_TEXT} characters.", field="reason")


def _facts(context: RequestContext, host: str) -> Facts:
    service = host_details.service_of(context, host)
    return Facts(host_details.state_of(context, host), service)


def _deed(deed_id: str) -> _Deed:
    for deed in DEEDS:
        if deed.id == deed_id:
            return deed
    raise NotFound(f"There is nothing called {deed_id[:60]} to do to a host.")


def _offer(deed: _Deed, facts: Facts) -> Offer:
    refused = deed.why_not(facts)
    confirm = facts.service.host if deed.is_confirmed else ""
    return Offer(deed.id, deed.title, deed.does, not refused, refused, deed.is_danger, confirm)


def _close(context: RequestContext, service: ServiceView, reason: str) -> str:
    host_closing.update(context, service, is_disabled=True, disabled_reason=reason)
    return f"{service.host} takes no new servers. Those that are there stay."


def _open(context: RequestContext, service: ServiceView, reason: str) -> str:
    drains.open_again(context, service.host)
    return f"{service.host} takes new servers again."


def _try(context: RequestContext, service: ServiceView, reason: str) -> str:
    canaries.begin(context, service.host)
    return f"{service.host} is being tried. It is opened when its canary has lived."


def _why_not_try(facts: Facts) -> str:
    return _why_not_open(facts) or ("" if facts.service.is_up else "Its agent does not answer.")


def _why_not_open(facts: Facts) -> str:
    if facts.state == fleet.DRAINING:
        return "It is being emptied: cancel that first."
    return "" if facts.service.is_disabled else "It is in service."


def _fence(context: RequestContext, service: ServiceView, reason: str) -> str:
    host_closing.update(context, service, is_forced_down=True)
    return f"{service.host} counts as off. Its servers can be built anew elsewhere."


def _unfence(context: RequestContext, service: ServiceView, reason: str) -> str:
    host_closing.update(context, service, is_forced_down=False)
    return f"{service.host} counts as up as soon as it reports."


def _evacuate(context: RequestContext, service: ServiceView, reason: str) -> str:
    begun, refused = evacuations.begin_all(context, service)
    said = f"{len(begun)} server{'' if len(begun) == 1 else 's'} will be built anew."
    return f"{said} {len(refused)} cannot be: {'; '.join(sorted(set(refused.values())))}" if refused else said


def _why_not_evacuate(facts: Facts) -> str:
    try:
        evacuations.require_fenced(facts.service.cell, facts.service.host)
    except NovellaError as error:
        return error.message
    return ""


DEEDS = (
    _Deed(
        "close",
        "Close",
        "No new server is placed here. Servers that are here stay and run on.",
        lambda facts: "It is closed already." if facts.service.is_disabled else "",
        _close,
    ),
    _Deed(
        "open",
        "Return to service",
        "The scheduler may place servers here again.",
        _why_not_open,
        _open,
    ),
    _Deed(
        "try",
        "Return with a canary",
        "One small server is built here and deleted again. The host is opened when that went well, and stays closed "
        "when it did not.",
        _why_not_try,
        _try,
    ),
    _Deed(
        "fence",
        "Say that it is off",
        "For a host whose power is cut: its agent counts as down, and its servers may be built anew elsewhere. While "
        "its guests still run, that would run them twice.",
        lambda facts: "It counts as off already." if facts.service.is_forced_down else "",
        _fence,
        is_danger=True,
        is_confirmed=True,
    ),
    _Deed(
        "unfence",
        "Say that it is back",
        "Its agent is believed again. Guests of servers that were built anew meanwhile are destroyed there.",
        lambda facts: "" if facts.service.is_forced_down else "Nobody has said that it is off.",
        _unfence,
    ),
    _Deed(
        "evacuate",
        "Evacuate",
        "Every server of this dead host is built anew on others: from its volumes, or from its image without what was "
        "on its disk.",
        _why_not_evacuate,
        _evacuate,
        is_danger=True,
        is_confirmed=True,
        is_apart=True,
    ),
)
