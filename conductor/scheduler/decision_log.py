"""Keeps decisions, finds them again, and notes what became of each host that one named."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from conductor import process_names
from conductor.api_db.models import InstanceMapping, SchedulingDecision
from conductor.core.scheduling.decision import Decision
from conductor.core.scheduling.watching import Use
from conductor.core.selection import Selection
from conductor.scheduler.snapshot_store import Kept
from conductor.transactions import database_now, write_tx

ALIAS = "default"

USED = "used"
FAILED = "failed"  # the build failed there
CLAIM_FAILED = "claim failed"  # it was full by then
NOT_OPEN = "not open"  # its service was silent or disabled by then
NOT_NEEDED = "not needed"


def find(step_key: str) -> SchedulingDecision | None:
    """The decision that a step has made already."""
    return SchedulingDecision.objects.filter(step_key=step_key).first()


def selections_of(row: SchedulingDecision) -> list[list[Selection]]:
    """Per instance, the chosen host and its alternates, as decided."""
    return [[Selection.from_json(item) for item in chosen] for chosen in row.selections]


def keep(
    decision: Decision,
    *,
    step_key: str,
    run_uuid: str,
    project_id: str,
    instance_uuids: Sequence[str],
    context: Mapping[str, Any],
) -> SchedulingDecision:
    """Store a decision; inside the transaction of its claims.

    `context` has the digest of the `plugins`, their `uses`, the `lost_races` before; `request` and `seen` where kept.
    """
    seen = context.get("seen") or Kept()
    uses = context.get("uses", ())
    return SchedulingDecision.objects.create(
        step_key=step_key,
        run_uuid=run_uuid,
        project_id=project_id,
        is_successful=decision.is_successful,
        selections=[[selection.to_json() for selection in chosen] for chosen in decision.selections],
        summary={
            **decision.summary(),
            **_deciders(context["plugins"], uses),
            "instance_uuids": list(instance_uuids),
            "lost_races": len(context["lost_races"]),
            "fates": {},
        },
        details={
            **decision.details(),
            "lost_races": list(context["lost_races"]),
            "would_choose": {use.name: use.would_choose for use in _noted(uses) if use.would_choose},
        },
        request=context.get("request"),
        snapshot_digest=seen.digest,
        snapshot_rows=seen.rows,
        created_at=database_now(),
    )


def _deciders(plugins: str, uses: Iterable[Use]) -> dict[str, Any]:
    """The process that decided, and with which plugins."""
    noted = [use.to_json() for use in _noted(uses)]
    return {"scheduler": process_names.mine(), "plugins": plugins, "plugin_uses": noted}


def _noted(uses: Iterable[Use]) -> list[Use]:
    """What is kept: of those that ship, the funnel says enough as long as nothing is wrong with them."""
    return [use for use in uses if use.is_shadow or use.faults or not use.is_trusted]


def mark(run_uuid: str, instance_uuid: str, fates: Mapping[str, str], *, left: Collection[str] | None = None) -> None:
    """Note fates by host for one instance of the newest successful decision of a run; unknown ones are passed over.

    Where `left` is given, named hosts outside of it were used, and failed.
    """
    with write_tx(ALIAS):
        rows = SchedulingDecision.objects.select_for_update().filter(run_uuid=run_uuid, is_successful=True)
        row = rows.order_by("-pk").defer("details").first()
        if row is None or instance_uuid not in row.summary["instance_uuids"]:
            return
        known = row.summary["fates"].get(instance_uuid, {})
        index = row.summary["instance_uuids"].index(instance_uuid)
        used = [item["host"] for item in row.selections[index] if left is not None and item["host"] not in left]
        failed = {host: FAILED for host in used if known.get(host, USED) == USED}
        row.summary["fates"][instance_uuid] = {**known, **failed, **fates}
        SchedulingDecision.objects.filter(pk=row.pk).update(summary=row.summary)


def build_run_of(instance_uuid: str) -> str | None:
    """The run at the API level that builds, or built, the instance."""
    runs = InstanceMapping.objects.filter(instance_uuid=instance_uuid).values_list("build_run_uuid", flat=True)
    run_uuid = runs.first()
    return str(run_uuid) if run_uuid else None


def note_alternates(instance_uuid: str, left: Iterable[str], fates: Mapping[str, str]) -> None:
    """An attempt on an alternate: hosts that are not `left` were tried before and failed; `fates` are of now."""
    run_uuid = build_run_of(instance_uuid)
    if run_uuid is not None:
        mark(run_uuid, instance_uuid, fates, left=frozenset(left))
