"""What operators may do to a cell, with a reason, on record: close it to new servers, cut it off, and undo either."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from conductor import events
from conductor.api_db.models import CellMapping
from conductor.cells import quarantine
from conductor.cells.lookup import API_ALIAS, CELL0
from conductor.cells.quarantine import Quarantine
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, NotFound, NovellaError
from conductor.services import audit
from conductor.services.audit import Entry
from conductor.services.cell_health import require_operator
from conductor.services.host_deeds import Offer, require_reason
from conductor.transactions import database_now, write_tx


@dataclass(frozen=True)
class _Deed:
    id: str
    title: str
    does: str
    is_so: Callable[[_Asked], bool]  # whether the cell is as the deed would make it
    values: Callable[[RequestContext, str], dict[str, Any]]  # of its row, by who does it and why
    told: Mapping[str, bool]  # to those who follow the cell
    why_not: str  # where it is so
    done: str
    is_danger: bool = False


class _Asked(Protocol):
    """What the rules ask about a cell."""

    @property
    def name(self) -> str: ...
    @property
    def is_disabled(self) -> bool: ...
    @property
    def is_quarantined(self) -> bool: ...


def offers(cell: _Asked) -> list[Offer]:
    """Every deed, with why not where it is refused now."""
    return [_offer(deed, cell) for deed in DEEDS]


def quarantines() -> Mapping[str, Quarantine]:
    """The cells that are cut off, by whom and why."""
    return quarantine.all_now()


def offer(context: RequestContext, name: str, deed_id: str) -> Offer:
    """One deed. Raises Forbidden, and NotFound, also for a deed that there is not."""
    deed = _deed(deed_id)
    require_operator(context)
    return _offer(deed, _cell(name))


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
    with write_tx(API_ALIAS):
        refused = _why_not(deed, CellMapping.objects.select_for_update().get(pk=cell.pk))
        if refused:
            raise Conflict(refused)
        CellMapping.objects.filter(pk=cell.pk).update(**deed.values(context, reason))
        events.append(API_ALIAS, events.about_cell(cell.name), "cell.updated", dict(deed.told))
        audit.record(API_ALIAS, context, _entry(context, cell.name, deed, reason))
    quarantine.look()  # here at once; other processes see it within a second


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


def _offer(deed: _Deed, cell: _Asked) -> Offer:
    refused = _why_not(deed, cell)
    return Offer(deed.id, deed.title, deed.does, not refused, refused, deed.is_danger)


def _why_not(deed: _Deed, cell: _Asked) -> str:
    if cell.name == CELL0:
        return "It has no hosts: it keeps the servers that never got one."
    return deed.why_not if deed.is_so(cell) else ""


DEEDS = (
    _Deed(
        "close",
        "Close",
        "The scheduler passes over all its hosts: no new server is placed there, and none moves there, nor from one of "
        "them to another. Servers that are there stay and run on.",
        is_so=lambda cell: cell.is_disabled,
        values=lambda context, reason: {"is_disabled": True, "disabled_reason": reason},
        told={"is_disabled": True},
        why_not="It is closed already.",
        done="%(cell)s takes no new servers. Those that are there stay.",
    ),
    _Deed(
        "open",
        "Return to service",
        "The scheduler may place servers in this cell again.",
        is_so=lambda cell: not cell.is_disabled,
        values=lambda context, reason: {"is_disabled": False, "disabled_reason": ""},
        told={"is_disabled": False},
        why_not="It is in service.",
        done="%(cell)s takes new servers again.",
    ),
    _Deed(
        "quarantine",
        "Put in quarantine",
        "The cell is cut off, as if it did not answer: its hosts and workflows are left out of lists, its servers are "
        "listed as unknown and cannot be changed, none is placed there, and its conductors begin no workflow. What is "
        "under way there goes on to its end. Wishes to delete are kept until it is lifted.",
        is_so=lambda cell: cell.is_quarantined,
        values=lambda context, reason: {
            "quarantined_at": database_now(),
            "quarantined_by": (context.user_name or context.user_id)[:255],
            "quarantine_reason": reason,
        },
        told={"is_quarantined": True},
        why_not="It is in quarantine already.",
        done="%(cell)s is in quarantine: it is asked nothing, and nothing new is sent there.",
        is_danger=True,
    ),
    _Deed(
        "lift",
        "Lift the quarantine",
        "The cell is asked again: its servers and workflows are back in lists, and what waited there goes on.",
        is_so=lambda cell: not cell.is_quarantined,
        values=lambda context, reason: {"quarantined_at": None, "quarantined_by": "", "quarantine_reason": ""},
        told={"is_quarantined": False},
        why_not="It is not in quarantine.",
        done="%(cell)s is asked again. What waited there goes on.",
    ),
)
