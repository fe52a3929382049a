"""Scheduling decisions as stored: counts and advice for project members, hosts and weights for operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from conductor.api_db.models import InstanceMapping, SchedulingDecision
from conductor.cells.lookup import journal_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden, Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.core.messages import unpack
from conductor.core.page import Page
from conductor.core.phrases import phrase
from conductor.core.scheduling.decision import unpacked
from conductor.journal.models import WorkflowRun
from conductor.scheduler.decision_log import NOT_NEEDED, USED
from conductor.services.scheduling.types import DecisionQuery, DecisionSummary, DecisionView

OUTCOMES: Mapping[str, bool] = {"successful": True, "failed": False}
NOTHINGS = UUID(int=0)
LARGE = ("details", "selections", "snapshot_rows")
# Parts of a request that its owner may see. All others may hold hosts' names.
OWN_WORDS = ("flavor", "image", "num_instances", "availability_zone", "scheduler_hints", "is_volume_backed")


def for_run(context: RequestContext, run_uuid: UUID | str) -> list[DecisionView]:
    """Return the decisions of a workflow, oldest first. It may be empty. Raises NotFound across projects."""
    rows = list(_rows(context).filter(run_uuid=_uuid(run_uuid)).order_by("pk"))
    for row in rows:
        _refuse_other_project(context, row)
    return [_view(context, row) for row in rows]


def untried(decision: DecisionView) -> list[str]:
    """Return the untried alternates of a decision about one instance, in order."""
    if len(decision.selections) != 1:
        return []
    return [str(one["host"]) for one in decision.selections[0]["alternates"] if one["fate"] == NOT_NEEDED]


def get(context: RequestContext, decision_uuid: UUID | str) -> DecisionView:
    """Return one decision. Raises NotFound, for another project's too."""
    return _view(context, _found(_rows(context), context, decision_uuid))


def row_of(context: RequestContext, decision_uuid: UUID | str) -> SchedulingDecision:
    """Return the stored row of a decision, with all details. Raises NotFound, for another project's too."""
    return _found(SchedulingDecision.objects.all(), context, decision_uuid)


def list_page(context: RequestContext, query: DecisionQuery) -> Page[DecisionSummary]:
    """Return decisions, newest first.

    Raises Invalid for an unknown outcome, Forbidden for another project's, NotFound for the marker.
    """
    rows = SchedulingDecision.objects.defer(*LARGE, "request").order_by("-pk")
    project_id = query.project_id if context.is_admin else context.project_id
    if query.project_id not in ("", project_id):
        raise Forbidden(phrase("Only administrators can see decisions of other projects."))
    if project_id:
        rows = rows.filter(project_id=project_id)
    if query.outcome:
        if query.outcome not in OUTCOMES:
            raise Invalid(
                phrase(
                    "Unknown outcome %(outcome)s. Use one of %(choices)s.",
                    outcome=query.outcome[:60],
                    choices=", ".join(OUTCOMES),
                ),
                field="outcome",
            )
        rows = rows.filter(is_successful=OUTCOMES[query.outcome])
    if query.is_placement:
        rows = rows.filter(is_rebuild=False)
    if query.since:
        rows = rows.filter(created_at__gte=query.since)
    if query.until:
        rows = rows.filter(created_at__lt=query.until)
    rows, missing = _narrowed(rows, query)
    if query.marker:
        marker = rows.filter(uuid=_uuid(query.marker)).first()
        if marker is None:
            raise NotFound(phrase("Marker %(marker)s could not be found.", marker=query.marker[:60]))
        rows = rows.filter(pk__lt=marker.pk)
    found = list(rows[: query.limit + 1])
    return Page([_summary(row) for row in found[: query.limit]], len(found) > query.limit, missing)


def hosts_page(
    context: RequestContext, decision_uuid: UUID | str, *, verdict: str = "", rejected_by: str = ""
) -> list[dict[str, Any]]:
    """Return the stored hosts with their verdicts, those that fit first; for operators.

    `verdict` is fits or rejected. Raises NotFound, Forbidden, Invalid.
    """
    row = operators_row(context, decision_uuid)
    if verdict not in ("", "fits", "rejected"):
        raise Invalid(
            phrase("Unknown verdict %(verdict)s. Use fits or rejected.", verdict=verdict[:60]), field="verdict"
        )
    return [
        unpacked(host)
        for host in row.details["hosts"]
        if verdict in ("", "fits" if host["passed"] else "rejected") and rejected_by in ("", host["rejected_by"])
    ]


def weights(context: RequestContext, decision_uuid: UUID | str) -> list[dict[str, Any]]:
    """Return the hosts with the highest weights, with each weigher's part; for operators."""
    found: list[dict[str, Any]] = operators_row(context, decision_uuid).details["weights"]
    return found


def operators_row(context: RequestContext, decision_uuid: UUID | str) -> SchedulingDecision:
    """Return the stored row of a decision, for operators, who may see hosts' names. Raises NotFound, then Forbidden."""
    row = row_of(context, decision_uuid)
    if not context.is_admin:
        raise Forbidden(phrase("Only administrators can see the hosts of a decision."))
    return row


def _narrowed(
    rows: QuerySet[SchedulingDecision], query: DecisionQuery
) -> tuple[QuerySet[SchedulingDecision], Mapping[str, str]]:
    """Filter by workflow and instance. Return also the databases that did not respond with its workflows."""
    if query.run_uuid:
        rows = rows.filter(run_uuid=_uuid(query.run_uuid))
    if not query.instance_uuid:
        return rows, {}
    wanted = _uuid(query.instance_uuid)
    runs = set(InstanceMapping.objects.filter(instance_uuid=wanted).values_list("build_run_uuid", flat=True))

    def ask(alias: str) -> list[UUID]:
        return list(WorkflowRun.objects.using(alias).filter(instance_uuid=wanted).values_list("uuid", flat=True))

    gathered = scatter_gather(ask, journal_aliases())
    for uuids in gathered.answers.values():
        runs |= set(uuids)
    return rows.filter(run_uuid__in=runs), gathered.failures


def _uuid(text: UUID | str) -> UUID:
    """Return the uuid, or one that matches nothing."""
    return uuid_or_none(str(text)) or NOTHINGS


def _rows(context: RequestContext) -> QuerySet[SchedulingDecision]:
    rows = SchedulingDecision.objects.all()
    return rows.defer("snapshot_rows") if context.is_admin else rows.defer(*LARGE)


def _found(
    rows: QuerySet[SchedulingDecision], context: RequestContext, decision_uuid: UUID | str
) -> SchedulingDecision:
    row = rows.filter(uuid=_uuid(decision_uuid)).first()
    if row is None:
        raise NotFound(phrase("Decision %(decision)s could not be found.", decision=str(decision_uuid)[:60]))
    _refuse_other_project(context, row)
    return row


def _refuse_other_project(context: RequestContext, row: SchedulingDecision) -> None:
    if not context.may_see_project(row.project_id):
        raise NotFound(phrase("Decision %(decision)s could not be found.", decision=row.uuid))


def _summary(row: SchedulingDecision) -> DecisionSummary:
    summary = row.summary
    return DecisionSummary(
        uuid=str(row.uuid),
        run_uuid=str(row.run_uuid),
        project_id=row.project_id,
        is_successful=row.is_successful,
        created_at=row.created_at,
        num_instances=summary.get("num_instances", 0),
        num_hosts=summary.get("num_hosts", 0),
        instance_uuids=summary.get("instance_uuids", []),
        advice=[unpack(text) for text in summary.get("advice", [])],
    )


def _view(context: RequestContext, row: SchedulingDecision) -> DecisionView:
    summary = row.summary
    private: dict[str, Any] = {
        "missing_cells": dict.fromkeys(summary["missing_cells"], "did not answer"),
        "request": row.request and {name: row.request[name] for name in OWN_WORDS if name in row.request},
    }
    if context.is_admin:
        private = {
            "hosts": [unpacked(host) for host in row.details["hosts"]],
            "weights": row.details["weights"],
            "nearest": [unpacked(miss) for miss in row.details["nearest"]],
            "faults": summary["faults"],
            "lost_races": _with_takers(row.details["lost_races"]),
            "selections": _selections(row),
            "missing_cells": summary["missing_cells"],
            "request": row.request,
            "scheduler": summary.get("scheduler", ""),
        }
    return DecisionView(
        uuid=str(row.uuid),
        run_uuid=str(row.run_uuid),
        is_successful=row.is_successful,
        created_at=row.created_at,
        seed=summary["seed"],
        snapshot_age_seconds=summary["snapshot_age_seconds"],
        num_instances=summary["num_instances"],
        funnel=summary["funnel"],
        advice=[unpack(text) for text in summary["advice"]],
        instance_uuids=summary.get("instance_uuids", []),
        project_id=row.project_id,
        num_hosts=summary.get("num_hosts", 0),
        num_lost_races=summary.get("lost_races", 0),
        plugins=summary.get("plugins", ""),
        milliseconds=summary.get("milliseconds", 0.0),
        is_detailed=summary.get("is_detailed", True),
        drawn_among=summary.get("drawn_among", 1),
        can_be_replayed=row.request is not None and bool(row.snapshot_digest or row.snapshot_rows),
        **private,
    )


def _with_takers(races: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the lost races. `taken_by_run` is the workflow of the server that was faster."""
    uuids = {race["taken_by"] for race in races if race.get("taken_by")}
    mappings = InstanceMapping.objects.filter(instance_uuid__in=uuids) if uuids else InstanceMapping.objects.none()
    runs = {str(uuid): str(run) for uuid, run in mappings.values_list("instance_uuid", "build_run_uuid")}
    return [{**race, "taken_by_run": runs.get(race.get("taken_by", ""), "")} for race in races]


def _selections(row: SchedulingDecision) -> list[dict[str, Any]]:
    found = []
    for uuid, (chosen, *alternates) in zip(row.summary["instance_uuids"], row.selections, strict=False):
        fates = row.summary["fates"].get(uuid, {})
        reasons = row.summary.get("reasons", {}).get(uuid, {})
        outcomes = [
            {"host": host, "fate": fates.get(host, default), "reason": unpack(reasons.get(host, ""))}
            for host, default in ((chosen["host"], USED), *((item["host"], NOT_NEEDED) for item in alternates))
        ]
        found.append({"instance_uuid": uuid, "cell": chosen["cell"], **outcomes[0], "alternates": outcomes[1:]})
    return found
