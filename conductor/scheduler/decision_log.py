"""Stores scheduling decisions with their host snapshots, and the outcome at each host."""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from django.conf import settings

from conductor import process_names
from conductor.api_db.models import HostSnapshot, InstanceMapping, SchedulingDecision
from conductor.core.errors import NotFound
from conductor.core.host_state import HostState, HostTable
from conductor.core.messages import pack
from conductor.core.phrases import phrase
from conductor.core.scheduling import snapshots
from conductor.core.scheduling.decision import Decision
from conductor.core.scheduling.snapshots import Unreadable
from conductor.core.scheduling.watching import PluginUse
from conductor.core.selection import Selection
from conductor.db.transactions import database_now, write_tx

ALIAS = "default"

USED = "used"
FAILED = "failed"  # the build failed there
REFUSED = "refused"  # it refused before the build, with a reason
CLAIM_FAILED = "claim failed"  # it was full by the time of the claim
NOT_OPEN = "not open"  # its service was down or disabled by then
NOT_NEEDED = "not needed"


def find(step_key: str) -> SchedulingDecision | None:
    """Return the decision that a step has made already."""
    return SchedulingDecision.objects.filter(step_key=step_key).first()


def find_all(step_keys: Iterable[str]) -> dict[str, SchedulingDecision]:
    """Return the decisions that these steps have made already, by step."""
    return {row.step_key: row for row in SchedulingDecision.objects.filter(step_key__in=list(step_keys))}


def selections_of(row: SchedulingDecision) -> list[list[Selection]]:
    """Return, per instance, the chosen host and its alternates, as decided."""
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
    """Store a decision. Called inside the transaction of its claims.

    Args:
        context: The digest of the `plugins`, their `uses`, the `lost_races` before, and `request` and `seen` where they
            are stored; `is_rebuild` for a server that stays on its host.
    """
    seen = context.get("seen") or KeptDecisions()
    uses = context.get("uses", ())
    return SchedulingDecision.objects.create(
        step_key=step_key,
        run_uuid=run_uuid,
        project_id=project_id,
        is_successful=decision.is_successful,
        is_rebuild=context.get("is_rebuild", False),
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


def _deciders(plugins: str, uses: Iterable[PluginUse]) -> dict[str, Any]:
    """Return the process that made the decision, and its plugins."""
    noted = [use.to_json() for use in _noted(uses)]
    return {"scheduler": process_names.mine(), "plugins": plugins, "plugin_uses": noted}


def _noted(uses: Iterable[PluginUse]) -> list[PluginUse]:
    """Return the records to store. Plugins that ship and had no fault are left out, as the funnel has their numbers."""
    return [use for use in uses if use.is_shadow or use.faults or not use.is_trusted]


def mark(
    run_uuid: str,
    instance_uuid: str,
    fates: Mapping[str, str],
    *,
    left: Collection[str] | None = None,
    reasons: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Record outcomes by host for one instance of a run's newest successful decision, some with their reasons.

    Unknown hosts are skipped. Where `left` is given, named hosts outside of it were used, and failed.
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
        if reasons:
            by_host = row.summary.setdefault("reasons", {}).setdefault(instance_uuid, {})
            by_host |= {host: pack(reason) for host, reason in reasons.items()}
        SchedulingDecision.objects.filter(pk=row.pk).update(summary=row.summary)


def build_run_of(instance_uuid: str) -> str | None:
    """Return the API-level run that builds the instance, or has built it."""
    runs = InstanceMapping.objects.filter(instance_uuid=instance_uuid).values_list("build_run_uuid", flat=True)
    run_uuid = runs.first()
    return str(run_uuid) if run_uuid else None


def note_alternates(instance_uuid: str, left: Iterable[str], fates: Mapping[str, str]) -> None:
    """Record an attempt on an alternate. Hosts that are not in `left` failed before; `fates` are the outcomes now."""
    run_uuid = build_run_of(instance_uuid)
    if run_uuid is not None:
        mark(run_uuid, instance_uuid, fates, left=frozenset(left))


log = logging.getLogger(__name__)

# A copy serves until the number of rows that differ exceeds this factor times the root of the number of rows. That
# about minimizes the sum of both sizes.
ROWS_PER_ROOT = 4
LONGEST_SECONDS = 6 * 3600.0  # well within the shortest retention of a copy, which is a day


@dataclass(frozen=True, slots=True)
class KeptDecisions:
    """Reference to a stored snapshot. Without a `digest` its rows are the whole snapshot."""

    digest: str = ""
    rows: bytes | None = None


@dataclass(frozen=True)
class SeenHosts:
    """The hosts that a decision read. With `is_partial` only those that the decision names, of a fleet too large to
    store.
    """

    table: HostTable
    is_partial: bool


@dataclass(frozen=True)
class _Copy:
    digest: str
    states: Sequence[HostState]
    epoch: str
    made_at: float


class SnapshotStore:
    """Stores host snapshots; one per process, thread-safe. It caches its last copy."""

    def __init__(self) -> None:
        self._copy: _Copy | None = None

    def keep(self, table: HostTable, named: Iterable[str], *, epoch: str) -> KeptDecisions:
        """Store the table, or of a large fleet only the `named` hosts. Called outside of the decision's transaction.

        `epoch` identifies the database. A table that cannot be serialized is not stored, and the decision goes on.
        """
        try:
            if len(table) > settings.NOVELLA_SNAPSHOT_HOSTS:
                return KeptDecisions(rows=snapshots.pack(table.states, table.rows_of(set(named))))
            copy = self._copy
            rows = _rows_beyond(copy, table.states, epoch) if copy else None
            if copy is None or rows is None:  # two threads may both create one: equal ones are stored once
                self._copy = copy = _copied(table.states, epoch)
                rows = []
            return KeptDecisions(copy.digest, snapshots.pack(table.states, rows) if rows else None)
        except (TypeError, ValueError):  # a value of a foreign plugin or driver
            log.exception("hosts not kept with the decision: hosts=%d", len(table))
            return KeptDecisions()


def _rows_beyond(copy: _Copy, states: Sequence[HostState], epoch: str) -> list[int] | None:
    """Return the rows that differ from the copy. None where a new copy is due."""
    if copy.epoch != epoch or time.monotonic() - copy.made_at > LONGEST_SECONDS:
        return None
    return snapshots.changed_rows(copy.states, states, int(ROWS_PER_ROOT * math.sqrt(len(states))))


def seen(row: SchedulingDecision) -> SeenHosts:
    """Return the hosts that a decision read. Raises NotFound when they were not stored, or have expired."""
    changes = _unpacked(bytes(row.snapshot_rows), row) if row.snapshot_rows else None
    age = float(row.summary.get("snapshot_age_seconds", 0.0))
    if not row.snapshot_digest:
        if changes is None:
            raise NotFound(phrase("The host data of decision %(decision)s is not stored.", decision=row.uuid))
        return SeenHosts(HostTable.from_states(changes.states, age_seconds=age), is_partial=True)
    copy = HostSnapshot.objects.filter(digest=row.snapshot_digest).first()
    if copy is None:
        days = settings.NOVELLA_KEEP_SNAPSHOTS_DAYS
        raise NotFound(
            phrase(
                "The host data of decision %(decision)s is no longer stored: it is kept for %(days)s days.",
                decision=row.uuid,
                days=days,
            )
        )
    states = list(_unpacked(bytes(copy.content), row).states)
    if changes is not None:
        for index, state in zip(changes.rows, changes.states, strict=True):
            states[index] = state
    return SeenHosts(HostTable.from_states(states, age_seconds=age), is_partial=False)


def _unpacked(content: bytes, row: SchedulingDecision) -> snapshots.PackedStates:
    try:
        return snapshots.unpack(content)
    except Unreadable as error:
        raise NotFound(
            phrase("The host data of decision %(decision)s cannot be read: %(error)s.", decision=row.uuid, error=error)
        ) from None


def _copied(states: Sequence[HostState], epoch: str) -> _Copy:
    """Store all hosts as a copy; equal ones are stored once."""
    frozen = tuple(states)  # states of a working table change in place
    content = snapshots.pack(frozen)
    digest = hashlib.sha256(content).hexdigest()
    with write_tx(ALIAS):
        HostSnapshot.objects.update_or_create(
            digest=digest,
            defaults={"created_at": database_now()},  # renew its retention
            create_defaults={"num_hosts": len(frozen), "content": content, "created_at": database_now()},
        )
    return _Copy(digest, frozen, epoch, time.monotonic())


snapshot_store = SnapshotStore()
