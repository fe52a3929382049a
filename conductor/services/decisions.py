"""How requests were placed: counts and advice for those who asked, hosts and weights for operators."""

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
from conductor.journal.models import WorkflowRun
from conductor.scheduler.decision_log import NOT_NEEDED, USED
from conductor.services.decision_values import DecisionQuery, DecisionSummary, DecisionView
from conductor.services.values import Page

OUTCOMES: Mapping[str, bool] = {"successful": True, "failed": False}
NOTHINGS = UUID(int=0)
LARGE = ("details", "selections", "snapshot_rows")
# What of a request is its owner's business: everything else may hold hosts' names.
OWN_WORDS = ("flavor", "image", "num_instances", "availability_zone", "scheduler_hints", "is_volume_backed")


def for_run(context: RequestContext, run_uuid: UUID | str) -> list[DecisionView]:
    """The decisions of a workflow, oldest first; none for one that made none. Raises NotFound across projects."""
    rows = list(_rows(context).filter(run_uuid=_uuid(run_uuid)).order_by("pk"))
    for row in rows:
        _refuse_stranger(context, row)
    return [_view(context, row) for row in rows]


def untried(decision: DecisionView) -> list[str]:
    """The alternates of a decision about one instance that nobody has tried yet, in their order."""
    if len(decision.selections) != 1:
        return []
    return [str(one["host"]) for one in decision.selections[0]["alternates"] if one["fate"] == NOT_NEEDED]


def get(context: RequestContext, decision_uuid: UUID | str) -> DecisionView:
    """One decision. Raises NotFound, for another project's too."""
    return _view(context, _found(_rows(context), context, decision_uuid))


def row_of(context: RequestContext, decision_uuid: UUID | str) -> SchedulingDecision:
    """The stored decision with all that was kept. Raises NotFound, for another project's too."""
    return _found(SchedulingDecision.objects.all(), context, decision_uuid)


def list_page(context: RequestContext, query: DecisionQuery) -> Page[DecisionSummary]:
    """Newest first. Raises Invalid for an unknown outcome, Forbidden for another project's, NotFound for the marker."""
    rows = SchedulingDecision.objects.defer(*LARGE, "request").order_by("-pk")
    project_id = query.project_id if context.is_admin else context.project_id
    if query.project_id not in ("", project_id):
        raise Forbidden("Only administrators list decisions of other projects.")
    if project_id:
        rows = rows.filter(project_id=project_id)
    if query.outcome:
        if query.outcome not in OUTCOMES:
            raise Invalid(f"Unknown outcome {query.outcome[:60]}; it is one of {', '.join(OUTCOMES)}.", field="outcome")
        rows = rows.filter(is_successful=OUTCOMES[query.outcome])
    if query.since:
        rows = rows.filter(created_at__gte=query.since)
    if query.until:
        rows = rows.filter(created_at__lt=query.until)
    rows, missing = _narrowed(rows, query)
    if query.marker:
        marker = rows.filter(uuid=_uuid(query.marker)).first()
        if marker is None:
            raise NotFound(f"Marker {query.marker[:60]} could not be found.")
        rows = rows.filter(pk__lt=marker.pk)
    found = list(rows[: query.limit + 1])
    return Page([_summary(row) for row in found[: query.limit]], len(found) > query.limit, missing)


def hosts_page(
    context: RequestContext, decision_uuid: UUID | str, *, verdict: str = "", rejected_by: str = ""
) -> list[dict[str, Any]]:
    """The hosts that were kept with their verdicts, those that fit first; for operators.

    `verdict` is fits or rejected. Raises NotFound, Forbidden, Invalid.
    """
    row = operators_row(context, decision_uuid)
    if verdict not in ("", "fits", "rejected"):
        raise Invalid(f"Unknown verdict {verdict[:60]}; it is one of fits, rejected.", field="verdict")
    return [
        host
        for host in row.details["hosts"]
        if verdict in ("", "fits" if host["passed"] else "rejected") and rejected_by in ("", host["rejected_by"])
    ]


def weights(context: RequestContext, decision_uuid: UUID | str) -> list[dict[str, Any]]:
    """The heaviest hosts with every weigher's word; for operators."""
    found: list[dict[str, Any]] = operators_row(context, decision_uuid).details["weights"]
    return found


def operators_row(context: RequestContext, decision_uuid: UUID | str) -> SchedulingDecision:
    """The stored decision, for whoever may read hosts' names. Raises NotFound, then Forbidden."""
    row = row_of(context, decision_uuid)
    if not context.is_admin:
        raise Forbidden("Hosts are for administrators: the decision itself has counts and advice.")
    return row


def _narrowed(
    rows: QuerySet[SchedulingDecision], query: DecisionQuery
) -> tuple[QuerySet[SchedulingDecision], Mapping[str, str]]:
    """By workflow and by instance; and the databases that did not answer when they were asked for its workflows."""
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
    """The uuid, or one that nothing has."""
    return uuid_or_none(str(text)) or NOTHINGS


def _rows(context: RequestContext) -> QuerySet[SchedulingDecision]:
    rows = SchedulingDecision.objects.all()
    return rows.defer("snapshot_rows") if context.is_admin else rows.defer(*LARGE)


def _found(
    rows: QuerySet[SchedulingDecision], context: RequestContext, decision_uuid: UUID | str
) -> SchedulingDecision:
    row = rows.filter(uuid=_uuid(decision_uuid)).first()
    if row is None:
        raise NotFound(f"Decision {str(decision_uuid)[:60]} could not be found.")
    _refuse_stranger(context, row)
    return row


def _refuse_stranger(context: RequestContext, row: SchedulingDecision) -> None:
    if not context.may_see_project(row.project_id):
        raise NotFound(f"Decision {row.uuid} could not be found.")


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
        advice=summary.get("advice", []),
    )


def _view(context: RequestContext, row: SchedulingDecision) -> DecisionView:
    summary = row.summary
    private: dict[str, Any] = {
        "missing_cells": dict.fromkeys(summary["missing_cells"], "did not answer"),
        "request": row.request and {name: row.request[name] for name in OWN_WORDS if name in row.request},
    }
    if context.is_admin:
        private = {
            "hosts": row.details["hosts"],
            "weights": row.details["weights"],
            "nearest": row.details["nearest"],
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
        advice=summary["advice"],
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
    """The claims that came too late, with the workflow of the server that was faster as `taken_by_run`."""
    uuids = {race["taken_by"] for race in races if race.get("taken_by")}
    mappings = InstanceMapping.objects.filter(instance_uuid__in=uuids) if uuids else InstanceMapping.objects.none()
    runs = {str(uuid): str(run) for uuid, run in mappings.values_list("instance_uuid", "build_run_uuid")}
    return [{**race, "taken_by_run": runs.get(race.get("taken_by", ""), "")} for race in races]


def _selections(row: SchedulingDecision) -> list[dict[str, Any]]:
    found = []
    for uuid, (chosen, *alternates) in zip(row.summary["instance_uuids"], row.selections, strict=False):
        fates = row.summary["fates"].get(uuid, {})
        found.append(
            {
                "instance_uuid": uuid,
                "host": chosen["host"],
                "cell": chosen["cell"],
                "fate": fates.get(chosen["host"], USED),
                "alternates": [
                    {"host": item["host"], "fate": fates.get(item["host"], NOT_NEEDED)} for item in alternates
                ],
            }
        )
    return found
