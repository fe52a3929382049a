"""Actions of operators on a cell, with an audited reason: disable it, quarantine it, and the reverse of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from conductor import events
from conductor.api_db.models import CellMapping
from conductor.cells import quarantine
from conductor.cells.lookup import API_ALIAS, CELL0
from conductor.cells.quarantine import CellQuarantine
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, NotFound, NovellaError
from conductor.core.messages import message
from conductor.core.phrases import phrase
from conductor.db.transactions import database_now, write_tx
from conductor.services.audit import audit
from conductor.services.audit.audit import AuditEntry
from conductor.services.cells.health import require_operator
from conductor.services.fleet.host_actions import AvailableAction, require_reason


@dataclass(frozen=True)
class _CellAction:
    id: str
    title: str
    does: str
    is_so: Callable[[_CellFacts], bool]  # whether the cell is already in the state that the action sets
    values: Callable[[RequestContext, str], dict[str, Any]]  # values of the cell's row, by caller and reason
    emitted: Mapping[str, bool]  # emitted to subscribers of the cell
    why_not: str  # message for a cell that is in that state already
    done: str
    is_danger: bool = False


class _CellFacts(Protocol):
    """The attributes of a cell that decide which actions are available."""

    @property
    def name(self) -> str: ...
    @property
    def is_disabled(self) -> bool: ...
    @property
    def is_quarantined(self) -> bool: ...


def list_actions(cell: _CellFacts) -> list[AvailableAction]:
    """Return every action. One that is refused now has the reason."""
    return [_available(action, cell) for action in ACTIONS]


def quarantines() -> Mapping[str, CellQuarantine]:
    """Return the quarantined cells, with the operator and the reason."""
    return quarantine.all_now()


def get_action(context: RequestContext, name: str, action_id: str) -> AvailableAction:
    """Return one action. Raises Forbidden, or NotFound for an unknown cell or action."""
    action = _action(action_id)
    require_operator(context)
    return _available(action, _cell(name))


def execute(context: RequestContext, name: str, action_id: str, *, reason: str) -> str:
    """Execute an action and return a sentence on the result. Refusals are audited too.

    Servers that were placed before the cell was disabled are still built there.

    Raises:
        Forbidden: the caller is not an operator.
        NotFound: the cell or the action is unknown.
        Invalid: the reason is missing.
        Conflict: the cell is in that state already.
    """
    action = _action(action_id)
    require_operator(context)
    cell = _cell(name)
    try:
        require_reason(reason)
        _change(context, cell, action, reason)
    except NovellaError as error:
        with write_tx(API_ALIAS):
            audit.record(API_ALIAS, context, _entry(context, name, action, reason, error))
        raise
    return message(action.done, cell=name)


def _change(context: RequestContext, cell: CellMapping, action: _CellAction, reason: str) -> None:
    with write_tx(API_ALIAS):
        refused = _why_not(action, CellMapping.objects.select_for_update().get(pk=cell.pk))
        if refused:
            raise Conflict(refused)
        CellMapping.objects.filter(pk=cell.pk).update(**action.values(context, reason))
        events.append(API_ALIAS, events.about_cell(cell.name), "cell.updated", dict(action.emitted))
        audit.record(API_ALIAS, context, _entry(context, cell.name, action, reason))
    quarantine.look()  # at once in this process; others see it within a second


def _entry(
    context: RequestContext, name: str, action: _CellAction, reason: str, error: Exception | None = None
) -> AuditEntry:
    details = {"cell": name}
    return AuditEntry(
        action=f"cell.{action.id}", project_id=context.project_id, reason=reason[:255], error=error, details=details
    )


def _cell(name: str) -> CellMapping:
    found = CellMapping.objects.filter(name=name).first()
    if found is None:
        raise NotFound(phrase("There is no cell %(name)s.", name=name[:60]))
    return found


def _action(action_id: str) -> _CellAction:
    for action in ACTIONS:
        if action.id == action_id:
            return action
    raise NotFound(phrase("Cells have no action %(action)s.", action=action_id[:60]))


def _available(action: _CellAction, cell: _CellFacts) -> AvailableAction:
    refused = _why_not(action, cell)
    return AvailableAction(action.id, action.title, action.does, not refused, refused, action.is_danger)


def _why_not(action: _CellAction, cell: _CellFacts) -> str:
    if cell.name == CELL0:
        return message("cell.without_hosts")
    return message(action.why_not) if action.is_so(cell) else ""


ACTIONS = (
    _CellAction(
        "close",
        "Disable",
        (
            "The scheduler skips all hosts of the cell: no server is placed there or moves within it. "
            "Existing servers stay and keep running."
        ),
        is_so=lambda cell: cell.is_disabled,
        values=lambda context, reason: {"is_disabled": True, "disabled_reason": reason},
        emitted={"is_disabled": True},
        why_not="cell.closed_already",
        done="cell.closed",
    ),
    _CellAction(
        "open",
        "Enable",
        "The scheduler can place servers in this cell again.",
        is_so=lambda cell: not cell.is_disabled,
        values=lambda context, reason: {"is_disabled": False, "disabled_reason": ""},
        emitted={"is_disabled": False},
        why_not="cell.in_service",
        done="cell.opened",
    ),
    _CellAction(
        "quarantine",
        "Quarantine",
        (
            "Treats the cell as unresponsive: lists omit its hosts and workflows, its servers show as "
            "unknown and can't be changed, no server is placed there, and its conductors start no workflows. "
            "Running operations finish. Delete requests wait until you release the cell."
        ),
        is_so=lambda cell: cell.is_quarantined,
        values=lambda context, reason: {
            "quarantined_at": database_now(),
            "quarantined_by": (context.user_name or context.user_id)[:255],
            "quarantine_reason": reason,
        },
        emitted={"is_quarantined": True},
        why_not="cell.quarantined_already",
        done="cell.quarantined",
        is_danger=True,
    ),
    _CellAction(
        "lift",
        "Release from quarantine",
        "The cell is contacted again. Its servers and workflows return to lists, and waiting work continues.",
        is_so=lambda cell: not cell.is_quarantined,
        values=lambda context, reason: {"quarantined_at": None, "quarantined_by": "", "quarantine_reason": ""},
        emitted={"is_quarantined": False},
        why_not="cell.not_quarantined",
        done="cell.released",
    ),
)
