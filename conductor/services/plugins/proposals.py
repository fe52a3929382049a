"""Proposed changes of filters and weighers, made from a what-if comparison. Another operator applies or declines
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings

from conductor.api_db.models import PluginChoice as ChoiceRow
from conductor.api_db.models import PluginProposal
from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound, NovellaError
from conductor.core.identifiers import uuid_or_none
from conductor.core.messages import message
from conductor.core.phrases import phrase
from conductor.core.plugin_choice import KINDS
from conductor.db.transactions import database_now, write_tx
from conductor.services.audit import audit
from conductor.services.audit.audit import LONGEST_TEXT, AuditEntry
from conductor.services.plugins import plugins
from conductor.services.plugins.plugins import Difference, PluginSettingsChange
from conductor.services.workflows.approvals import DELEGATED

OPEN, APPLIED, DECLINED = "open", "applied", "declined"
DONE: Mapping[str, str] = {"apply": APPLIED, "decline": DECLINED}
MOST = 50
LONGEST_QUESTION = 8000
DECIDED = {APPLIED: "proposal.applied", DECLINED: "proposal.declined"}
OWN = message("proposal.own")
Changes = Mapping[str, Mapping[str, PluginSettingsChange]]


@dataclass(frozen=True)
class ProposalView:
    """A proposal. `differences` are from the current settings; a decided proposal has none."""

    uuid: str
    by: str
    reason: str
    question: str
    created_at: datetime
    state: str
    decided_by: str
    decided_at: datetime | None
    answer: str
    num_plugins: int
    differences: list[Difference]
    versions: Mapping[str, int]
    why_not: str = ""


def propose(context: RequestContext, changes: Changes, *, question: str, reason: str) -> str:
    """Store a change for review. Return its uuid.

    Raises Forbidden, and Invalid for a change that is invalid or changes nothing.
    """
    plugins.require_operator(context)
    _require_reason(reason)
    if not plugins.differences(context, changes):
        raise Invalid(message("proposal.no_change"), field="plugins")
    if settings.NOVELLA_SECOND_PERSON and context.delegated_by:
        raise Forbidden(DELEGATED)
    if len(question) > LONGEST_QUESTION:
        raise Invalid(phrase("The configuration is too long to store."), field="question")
    with write_tx(API_ALIAS):
        row = PluginProposal.objects.create(
            changes=_kept(changes),
            question=question,
            reason=reason,
            by_id=context.user_id,
            by_name=context.user_name,
            created_at=database_now(),
        )
        audit.record(API_ALIAS, context, _entry(context, "propose", row, reason))
    return str(row.uuid)


def get(context: RequestContext, proposal_uuid: str) -> ProposalView:
    """Return a proposal, with the differences that it would make now. Raises Forbidden, NotFound."""
    plugins.require_operator(context)
    return _view(context, _row(proposal_uuid))


def newest(context: RequestContext) -> list[ProposalView]:
    """Return the open proposals first, then the newest of the others."""
    plugins.require_operator(context)
    rows = PluginProposal.objects.order_by("-pk")
    found = [*rows.filter(state=OPEN)[:MOST], *rows.exclude(state=OPEN)[:MOST]]
    return [_view(context, row, is_brief=True) for row in found]


def count_open(context: RequestContext) -> int:
    """Return the number of open proposals."""
    plugins.require_operator(context)
    return PluginProposal.objects.filter(state=OPEN).count()


def apply(context: RequestContext, proposal_uuid: str, *, reason: str, versions: Mapping[str, int]) -> None:
    """Apply the changes, of all kinds or of none. `versions` are those that the caller saw.

    Raises what plugins.change raises, and Conflict for a decided proposal, or the caller's own where a second approver
    is required.
    """
    _decide(context, proposal_uuid, "apply", reason=reason, versions=versions)


def decline(context: RequestContext, proposal_uuid: str, *, reason: str) -> None:
    """Decline a proposal; changes no settings. Raises Conflict for a decided one."""
    _decide(context, proposal_uuid, "decline", reason=reason)


def _decide(
    context: RequestContext,
    proposal_uuid: str,
    action_id: str,
    *,
    reason: str,
    versions: Mapping[str, int] | None = None,
) -> None:
    plugins.require_operator(context)
    row = _row(proposal_uuid)
    try:
        _require_reason(reason)
        with write_tx(API_ALIAS):
            row = PluginProposal.objects.select_for_update().get(pk=row.pk)
            refused = _why_not(context, row, is_applied=versions is not None)
            if refused:
                raise Conflict(refused)
            for kind, named in _changes(row).items() if versions is not None else ():
                plugins.change(context, kind, plugins=named, version=(versions or {}).get(kind))
            row.state, row.answer = DONE[action_id], reason
            row.decided_by = context.user_name or context.user_id
            row.save(update_fields=["state", "answer", "decided_by"])
            PluginProposal.objects.filter(pk=row.pk).update(decided_at=database_now())
            audit.record(API_ALIAS, context, _entry(context, action_id, row, reason))
    except NovellaError as error:
        with write_tx(API_ALIAS):
            audit.record(API_ALIAS, context, _entry(context, action_id, row, reason[:LONGEST_TEXT], error))
        raise


def _row(proposal_uuid: str) -> PluginProposal:
    wanted = uuid_or_none(proposal_uuid)
    row = PluginProposal.objects.filter(uuid=wanted).first() if wanted else None
    if row is None:
        raise NotFound(phrase("Proposal %(proposal)s could not be found.", proposal=proposal_uuid[:60]))
    return row


def _why_not(context: RequestContext, row: PluginProposal, *, is_applied: bool = True) -> str:
    if row.state != OPEN:
        return message(DECIDED[row.state], name=row.decided_by)
    if not (is_applied and settings.NOVELLA_SECOND_PERSON):
        return ""
    return OWN if row.by_id == context.user_id else DELEGATED if context.delegated_by else ""


def _view(context: RequestContext, row: PluginProposal, *, is_brief: bool = False) -> ProposalView:
    is_looked_at = row.state == OPEN and not is_brief
    why_not, differences = _why_not(context, row), []
    if is_looked_at:
        try:
            differences = plugins.differences(context, _changes(row))
        except Invalid as error:  # a plugin is not installed any more, or has other options
            why_not = error.message
    versions = dict(ChoiceRow.objects.values_list("kind", "version")) if is_looked_at else {}
    return ProposalView(
        uuid=str(row.uuid),
        by=row.by_name or row.by_id,
        reason=row.reason,
        question=row.question,
        created_at=row.created_at,
        state=row.state,
        decided_by=row.decided_by,
        decided_at=row.decided_at,
        answer=row.answer,
        num_plugins=sum(len(named) for named in row.changes.values()),
        differences=differences,
        versions={kind: versions.get(kind, 0) for kind in row.changes} if is_looked_at else {},
        why_not=why_not,
    )


def _kept(changes: Changes) -> dict[str, Any]:
    return {
        kind: {name: {key: getattr(one, key) for key in sorted(one.keys)} for name, one in named.items()}
        for kind, named in changes.items()
        if kind in KINDS and named
    }


def _changes(row: PluginProposal) -> dict[str, dict[str, PluginSettingsChange]]:
    return {
        kind: {name: PluginSettingsChange(**values, keys=frozenset(values)) for name, values in named.items()}
        for kind, named in row.changes.items()
    }


def _require_reason(reason: str) -> None:
    if not reason.strip():
        raise Invalid(phrase("Enter a reason. It is recorded in the audit log."), field="reason")
    if len(reason) > LONGEST_TEXT:
        raise Invalid(phrase("Enter a reason of at most %(longest)s characters.", longest=LONGEST_TEXT), field="reason")


def _entry(
    context: RequestContext, action_id: str, row: PluginProposal, reason: str, error: Exception | None = None
) -> AuditEntry:
    names = sorted(f"{kind} {name}" for kind, named in row.changes.items() for name in named)
    return AuditEntry(
        action=f"plugins.{action_id}",
        project_id=context.project_id,
        reason=reason,
        error=error,
        details={"proposal": str(row.uuid), "by": row.by_name or row.by_id, "plugins": names},
    )
