"""What operators may do to a cell: close it to new servers and open it again, with a reason, on record."""

from __future__ import annotations

from dataclasses import dataclass

from conductor import events
from conductor.api_db.models import CellMapping
from conductor.cells.lookup import API_ALIAS, CELL0
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, NotFound, NovellaError
from conductor.services import audit
from conductor.services.audit import Entry
from conductor.services.cell_health import require_operator
from conductor.services.host_deeds import Offer, require_reason
from conductor.transactions import write_tx


@dataclass(frozen=True)
class _Deed:
    id: str
    title: str
    does: str
    closes: bool
    why_not: str  # where the cell is as the deed would make it
    done: str


def offers(name: str, *, is_disabled: bool) -> list[Offer]:
    """Every deed, with why not where it is refused now."""
    return [_offer(deed, name, is_disabled) for deed in DEEDS]


def offer(context: RequestContext, name: str, deed_id: str) -> Offer:
    """One deed. Raises Forbidden, and NotFound, also for a deed that there is not."""
    deed = _deed(deed_id)
    require_operator(context)
    return _offer(deed, name, _cell(name).is_disabled)


def do(context: RequestContext, name: str, deed_id: str, *, reason: str) -> str:
    """Do it; what was done, as a sentence. Refusals are put on record too.

    Raises Forbidden, NotFound, Invalid for a missing reason, Conflict where the cell is so already. What was placed
    before it was closed is still built there.
    """
    deed = _deed(deed_id)
    require_operator(context)
    cell = _cell(name)
    try:
        require_reason(reason)
        _change(context, cell, deed, reason)
    except NovellaError as error:
        with write_tx(API_ALIAS):
            audit.record(API_ALIAS, context, _entry(context, name, deed, reason, error))
        raise
    return deed.done % {"cell": name}


def _change(context: RequestContext, cell: CellMapping, deed: _Deed, reason: str) -> None:
    refused = _why_not(deed, cell.name, cell.is_disabled)
    if refused:
        raise Conflict(refused)
    with write_tx(API_ALIAS):
        rows = CellMapping.objects.filter(pk=cell.pk, is_disabled=not deed.closes)
        if not rows.update(is_disabled=deed.closes, disabled_reason=reason if deed.closes else ""):
            raise Conflict(deed.why_not)  # somebody else was faster
        events.append(API_ALIAS, events.about_cell(cell.name), "cell.updated", {"is_disabled": deed.closes})
        audit.record(API_ALIAS, context, _entry(context, cell.name, deed, reason))


def _entry(context: RequestContext, name: str, deed: _Deed, reason: str, error: Exception | None = None) -> Entry:
    details = {"cell": name}
    return Entry(
        action=f"cell.{deed.id}", project_id=context.project_id, reason=reason[:255], error=error, details=details
    )


def _cell(name: str) -> CellMapping:
    found = CellMapping.objects.filter(name=name).first()
    if found is None:
        raise NotFound(f"There is no cell {name[:60]}.")
    return found


def _deed(deed_id: str) -> _Deed:
    for deed in DEEDS:
        if deed.id == deed_id:
            return deed
    raise NotFound(f"There is nothing called {deed_id[:60]} to do to a cell.")


def _offer(deed: _Deed, name: str, is_disabled: bool) -> Offer:
    refused = _why_not(deed, name, is_disabled)
    return Offer(deed.id, deed.title, deed.does, not refused, refused, is_danger=False)


def _why_not(deed: _Deed, name: str, is_disabled: bool) -> str:
    if name == CELL0:
        return "It has no hosts: it keeps the servers that never got one."
    return deed.why_not if is_disabled == deed.closes else ""


DEEDS = (
    _Deed(
        "close",
        "Close",
        "The scheduler passes over all its hosts: no new server is placed there, and none moves there, nor from one of "
        "them to another. Servers that are there stay and run on.",
        closes=True,
        why_not="It is closed already.",
        done="%(cell)s takes no new servers. Those that are there stay.",
    ),
    _Deed(
        "open",
        "Return to service",
        "The scheduler may place servers in this cell again.",
        closes=False,
        why_not="It is in service.",
        done="%(cell)s takes new servers again.",
    ),
)
