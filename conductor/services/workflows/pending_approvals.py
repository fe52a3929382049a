"""Pending approvals in all workflows: the request, and whether the caller may approve it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from conductor.cells.lookup import journal_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden
from conductor.core.interventions import AGREE, BY_ID
from conductor.core.page import Page
from conductor.core.phrases import phrase
from conductor.core.states import LIVE_RUN_STATES, RunState
from conductor.journal.models import WorkflowRun
from conductor.services.workflows import actions, approvals
from conductor.services.workflows.approvals import ApprovalView

STATES = (*LIVE_RUN_STATES, RunState.NEEDS_OPERATOR)  # in which an intervention can be forced
MOST = 200  # of each database: unanswered requests expire


@dataclass(frozen=True)
class WaitingView:
    """A pending approval. `why_not` is the reason why the caller must not approve. All operators may decline.

    `revision` is that of the workflow. A decision with another one is refused.
    """

    run_uuid: str
    flow: str
    instance_uuid: str
    instance_name: str
    project_id: str
    revision: str
    intervention: str
    title: str
    step: str
    mark: str
    reason: str
    by: str
    asked_at: datetime
    until: datetime
    why_not: str


def waiting(context: RequestContext) -> Page[WaitingView]:
    """Return pending approvals, first to expire first, and the cells that are down; for operators.

    Two queries per database.
    """
    if not context.is_admin:
        raise Forbidden(phrase("Only operators can see pending approvals."))

    def ask(alias: str) -> list[WaitingView]:
        rows = WorkflowRun.objects.using(alias).filter(approval__isnull=False, state__in=STATES)
        runs = list(rows.order_by("pk")[:MOST])
        requested = approvals.open_of(alias, runs)
        return [_view(context, run, requested[run.pk]) for run in runs if run.pk in requested]

    found = scatter_gather(ask, journal_aliases())
    views = [view for answer in found.answers.values() for view in answer]
    return Page(sorted(views, key=lambda one: (one.until, one.run_uuid)), missing_cells=found.failures)


def _view(context: RequestContext, run: WorkflowRun, requested: ApprovalView) -> WaitingView:
    return WaitingView(
        run_uuid=str(run.uuid),
        flow=run.flow,
        instance_uuid=str(run.instance_uuid or ""),
        instance_name=run.instance_name,
        project_id=run.project_id,
        revision=actions.revision_of(run),
        intervention=requested.intervention,
        title=requested.title,
        step=requested.step,
        mark=requested.mark,
        reason=requested.reason,
        by=requested.by,
        asked_at=requested.asked_at,
        until=requested.until,
        why_not=approvals.why_not_for(context, BY_ID[AGREE], requested.by_id),
    )
