"""Drains of hosts for maintenance. A few servers move at a time, running ones live where that is possible."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from conductor.cell_db.models import Drain, Instance, Migration, Service
from conductor.cells.hosts import load_of
from conductor.cells.lookup import cell_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound, NovellaError
from conductor.core.identifiers import host_resource
from conductor.core.messages import message
from conductor.core.page import Page
from conductor.core.phrases import phrase
from conductor.core.states import RunState, VmState
from conductor.db.transactions import database_now, database_time, write_tx
from conductor.journal.models import WorkflowRun
from conductor.rpc import outbox
from conductor.services.hosts import hosts
from conductor.services.hosts.types import ServiceView
from conductor.services.server_migrations import live_migrations, resizes
from conductor.services.servers import actions

log = logging.getLogger(__name__)

FLOW = "drain_host"
ACTIONS = ("pause", "resume", "stop", "cancel")
LIVE, COLD = "live", "cold"
LONGEST_NOTE = 1000
IN_SERVICE = message("host.note_in_service")
MOST_TRIES = 3  # failed moves of one server, before it is skipped and the error is stored
RUNS_ON = frozenset({VmState.ACTIVE, VmState.PAUSED})
REASONS: Mapping[str, str] = {
    VmState.RESIZED: "its resize waits to be confirmed or reverted",
    VmState.BUILDING: "it is being built",
    VmState.SUSPENDED: "it is suspended: resume it, or delete it",
    VmState.RESCUED: "it is rescued: unrescue it first",
    VmState.SHELVED: "it is shelved: offload it",
    VmState.SOFT_DELETED: "it is deleted and may yet be restored: delete it for good, or restore it",
    VmState.ERROR: "it is in error: reset its state, or delete it",
}


@dataclass(frozen=True)
class DrainRequest:
    """Options of a drain.

    Attributes:
        allows_cold: Running servers may be switched off for the move.
        deadline_at: No further move starts after this time.
    """

    most_at_once: int = 2
    allows_cold: bool = False
    deadline_at: datetime | None = None


@dataclass(frozen=True)
class PlannedMove:
    """The planned move of one server: `how` is live or cold. If it is empty, the server cannot leave, for the given
    reason.
    """

    instance_uuid: str
    name: str
    how: str = ""
    reason: str = ""


@dataclass(frozen=True)
class DrainView:
    """A drain of a host. `left` lists its remaining servers with their planned moves. `is_late` is set past a
    deadline.
    """

    run_uuid: str
    host: str
    cell: str
    state: str
    is_paused: bool
    requested: DrainRequest
    moved: int
    moving: int
    is_late: bool = False
    left: list[PlannedMove] = field(default_factory=list)


def preview(context: RequestContext, host: str, requested: DrainRequest) -> list[PlannedMove]:
    """Return how a drain would move each server of the host. Changes nothing. Raises NotFound."""
    service = service_of(context, host)
    return [planned(service.cell, instance, requested) for instance in load_of(service.cell, host).instances]


def begin(context: RequestContext, host: str, requested: DrainRequest) -> str:
    """Drain a host and return the workflow's uuid.

    Raises NotFound, Invalid, and ResourceLocked while another workflow locks the host.
    """
    if not 1 <= requested.most_at_once <= 100:
        raise Invalid(phrase("Enter a number of servers from 1 to 100."), field="most_at_once")
    service = service_of(context, host)
    _require_ahead(service.cell, requested.deadline_at)
    with write_tx(service.cell):
        services = Service.objects.using(service.cell).filter(binary=hosts.COMPUTE, host=host)
        # Taken before the lock, as other users of the host do. Disabled at once, so that they choose another host.
        before = services.select_for_update().get()
        run = outbox.open_run(
            service.cell,
            outbox.NewRun(
                flow=FLOW,
                action="drain",
                context=context,
                resources=[host_resource(host)],
                instance_name=host,
                inputs={"host": host},
            ),
        )
        Drain.objects.using(service.cell).create(
            run_uuid=run.uuid,
            host=host,
            most_at_once=requested.most_at_once,
            allows_cold=requested.allows_cold,
            deadline_at=requested.deadline_at,
            was_disabled=before.is_disabled,
            reason_before=before.disabled_reason,
            created_at=database_now(),
            updated_at=database_now(),
        )
        services.update(is_disabled=True, disabled_reason=f"is being emptied by workflow {run.uuid}")
    return str(run.uuid)


def get(context: RequestContext, host: str) -> DrainView:
    """Return the newest drain of a host. Raises NotFound."""
    service = service_of(context, host)
    return _view(service.cell, _newest(service.cell, host))


def under_way(context: RequestContext) -> Page[DrainView]:
    """Return every drain that has not ended, by host, and the cells that are down. For operators."""
    if not context.is_admin:
        raise Forbidden(phrase("Only operators can see drains."))

    def ask(alias: str) -> list[DrainView]:
        live = WorkflowRun.objects.using(alias).live().filter(flow=FLOW).values_list("uuid", flat=True)
        rows = Drain.objects.using(alias).filter(run_uuid__in=list(live)).order_by("host")
        return [_view(alias, row) for row in rows]

    found = scatter_gather(ask, cell_aliases(with_cell0=False))
    views = [view for answer in found.answers.values() for view in answer]
    return Page(sorted(views, key=lambda one: one.host), missing_cells=found.failures)


def act(context: RequestContext, host: str, action: str, *, deadline_at: datetime | None = None) -> DrainView:
    """Pause, resume, stop (the host stays disabled) or cancel (the host is enabled again) the drain of a host.

    `deadline_at` sets a new deadline on resume. Without it, a deadline that has passed is removed. Servers that are
    already moving still arrive.

    Raises:
        Invalid: the action is unknown, or the time has passed.
        Conflict: the drain has ended.
    """
    if action not in ACTIONS:
        raise Invalid(
            phrase(
                "Unknown action %(action)s. Use one of %(choices)s.", action=action[:60], choices=", ".join(ACTIONS)
            ),
            field="action",
        )
    if deadline_at is not None and action != "resume":
        raise Invalid(phrase("Set a deadline only when you resume a drain."), field="deadline_at")
    service = service_of(context, host)
    _require_ahead(service.cell, deadline_at)
    with write_tx(service.cell):
        drain = _newest(service.cell, host)
        drains = Drain.objects.using(service.cell).filter(pk=drain.pk)
        runs = [run for run in outbox.hold(service.cell, uuid=drain.run_uuid) if run.finished_at is None]
        if not runs:
            raise Conflict(phrase("The drain of host %(host)s has ended.", host=host))
        if action == "pause":
            drains.update(is_paused=True, updated_at=database_now())
        elif action == "resume":
            until = deadline_at or (None if _has_passed(service.cell, drain) else drain.deadline_at)
            drains.update(is_paused=False, is_late=False, deadline_at=until, updated_at=database_now())
        else:
            drains.update(stays_closed=action == "stop", updated_at=database_now())
            outbox.request_cancel(service.cell, runs[0], f"an operator chose to {action} the drain")
        if action in ("pause", "resume"):
            outbox.wake(service.cell, drain.run_uuid)  # so that the drain records why it waits
    return get(context, host)


def open_again(context: RequestContext, host: str) -> ServiceView:
    """End a host's maintenance and enable it. Raises Conflict while it is drained."""
    service = service_of(context, host)
    with write_tx(service.cell):
        drain = Drain.objects.using(service.cell).filter(host=host).order_by("-pk").first()
        if drain and WorkflowRun.objects.using(service.cell).live().filter(uuid=drain.run_uuid).exists():
            raise Conflict(
                phrase(
                    "Workflow %(workflow)s is draining host %(host)s. Cancel that workflow first.",
                    host=host,
                    workflow=drain.run_uuid,
                )
            )
        return hosts.update_service(context, service, is_disabled=False, disabled_reason=None)


def note(context: RequestContext, host: str, text: str) -> None:
    """Set the maintenance note of a host that is out of service. "" clears it. Enabling the host removes it.

    Raises NotFound, Invalid for one that is too long, Conflict for a host in service.
    """
    if len(text) > LONGEST_NOTE:
        raise Invalid(phrase("Enter a note of at most %(longest)s characters.", longest=LONGEST_NOTE), field="note")
    service = service_of(context, host)
    if text and not is_out_of_service(service):
        raise Conflict(IN_SERVICE)
    hosts.update_service(context, service, maintenance_note=text.strip())


def is_out_of_service(service: ServiceView) -> bool:
    """Whether a host is disabled or forced down."""
    return service.is_disabled or service.is_forced_down


def advance(alias: str) -> int:
    """Start moves of servers that are still on draining hosts. Return how many were started."""
    begun = 0
    live = WorkflowRun.objects.using(alias).live().filter(flow=FLOW, position__gt=0, is_cancel_requested=False)
    for run in live:
        try:
            with write_tx(alias):
                count, is_news = _advance(alias, run)
            begun += count
            if is_news:  # not earlier, as the process that executes the drain locks its workflow first
                with write_tx(alias):
                    outbox.wake(alias, run.uuid)
        except NovellaError as error:
            log.warning("drain does not advance: run=%s %s", run.uuid, error.message)
    return begun


def planned(alias: str, instance: Instance, requested: DrainRequest) -> PlannedMove:
    """Return how a server leaves its host, or why it cannot."""
    row = PlannedMove(str(instance.uuid), instance.name)
    if instance.vm_state in REASONS:
        return replace(row, reason=REASONS[instance.vm_state])
    can = actions.capabilities(alias, instance.host or "")
    if instance.vm_state in RUNS_ON and "live_migrate" in can:
        return replace(row, how=LIVE)
    if instance.vm_state == VmState.PAUSED:
        return replace(row, reason="it is paused, and its host cannot move it while it is: unpause it")
    if instance.vm_state == VmState.ACTIVE and not requested.allows_cold:
        return replace(row, reason="its host cannot move it while it runs, and it may not be stopped for it")
    if "migrate" not in can:
        return replace(row, reason="the driver of its host cannot move it")
    return replace(row, how=COLD)


def service_of(context: RequestContext, host: str) -> ServiceView:
    """Return the compute service of a host. Raises NotFound."""
    for service in hosts.list_services(context, host=host, binary=hosts.COMPUTE).items:
        if service.is_known:
            return service
    raise NotFound(phrase("Compute host %(host)s could not be found.", host=host[:60]))


def _advance(alias: str, run: WorkflowRun) -> tuple[int, bool]:
    """Start moves. Return how many, and whether the drain's workflow must be woken.

    Runs in one transaction that locks the drain, so that concurrent conductors do not start more moves than allowed.
    """
    drain = Drain.objects.using(alias).select_for_update().filter(run_uuid=run.uuid).first()
    if drain is None or drain.is_paused or drain.is_late:
        return 0, False
    load = load_of(alias, drain.host)
    if load.is_empty:
        return 0, True
    if drain.deadline_at is not None and drain.deadline_at <= database_time(alias):
        Drain.objects.using(alias).filter(pk=drain.pk).update(is_late=True, updated_at=database_now())
        return 0, True
    context = RequestContext.from_json(run.context)
    room = drain.most_at_once - _children(alias, run).live().count()
    begun, refused = 0, {}
    for instance in load.instances:
        if WorkflowRun.objects.using(alias).live().filter(instance_uuid=instance.uuid).exists():
            continue
        reason = _why_not(alias, run, instance, drain) or (_try(context, alias, run, instance, drain) if room else "")
        if reason:
            refused[str(instance.uuid)] = reason
        elif room:
            begun, room = begun + 1, room - 1
    refused |= {str(move.instance_uuid): REASONS[VmState.RESIZED] for move in load.ways_back if not _is_ours(move)}
    if refused == drain.refused:
        return begun, False
    Drain.objects.using(alias).filter(pk=drain.pk).update(refused=refused, updated_at=database_now())
    return begun, True  # its page lists the servers that cannot leave


def _why_not(alias: str, run: WorkflowRun, instance: Instance, drain: Drain) -> str:
    """Return why a server is skipped: its state, or too many failed moves. Empty if it is not skipped."""
    plan = planned(alias, instance, _requested(drain))
    if plan.reason:
        return plan.reason
    failed = _children(alias, run).filter(instance_uuid=instance.uuid).exclude(state=RunState.DONE).order_by("-pk")
    tries = list(failed[:MOST_TRIES])
    if len(tries) < MOST_TRIES:
        return ""
    return f"tried {MOST_TRIES} times: {(tries[0].error or {}).get('message', '')}"


def _try(context: RequestContext, alias: str, run: WorkflowRun, instance: Instance, drain: Drain) -> str:
    """Start a server's move, cold if a live move has failed and cold ones are allowed. Return the refusal, or ""."""
    plan = planned(alias, instance, _requested(drain))
    has_failed_live = _children(alias, run).filter(instance_uuid=instance.uuid, flow="live_migrate_instance").exists()
    is_cold = plan.how == COLD or (has_failed_live and drain.allows_cold and instance.vm_state == VmState.ACTIVE)
    uuid, ours = str(instance.uuid), {"confirms_itself": True}
    try:
        if is_cold:
            resizes.migrate(context, uuid, details=ours, parent_uuid=run.uuid)
        else:
            live_migrations.begin(context, uuid, parent_uuid=run.uuid)
    except NovellaError as error:
        return error.message
    return ""


def _children(alias: str, run: WorkflowRun) -> Any:
    return WorkflowRun.objects.using(alias).filter(parent_uuid=run.uuid)


def _is_ours(move: Migration) -> bool:
    """Whether the move confirms itself."""
    return bool(move.details.get("confirms_itself"))


def _has_passed(alias: str, drain: Drain) -> bool:
    """Whether the deadline is over; on a paused drain `is_late` may not be set yet."""
    return drain.is_late or (drain.deadline_at is not None and drain.deadline_at <= database_time(alias))


def _require_ahead(alias: str, deadline_at: datetime | None) -> None:
    if deadline_at is not None and deadline_at <= database_time(alias):
        raise Invalid(message("drain.deadline_past"), field="deadline_at")


def _newest(alias: str, host: str) -> Drain:
    drain = Drain.objects.using(alias).filter(host=host).order_by("-pk").first()
    if drain is None:
        raise NotFound(phrase("Host %(host)s was never drained.", host=host))
    return drain


def _requested(drain: Drain) -> DrainRequest:
    return DrainRequest(drain.most_at_once, drain.allows_cold, drain.deadline_at)


def _view(alias: str, drain: Drain) -> DrainView:
    run = WorkflowRun.objects.using(alias).get(uuid=drain.run_uuid)
    children = _children(alias, run)
    requested, left = _requested(drain), []
    if run.finished_at is None:
        for instance in load_of(alias, drain.host).instances:
            plan = planned(alias, instance, requested)
            left.append(replace(plan, reason=drain.refused.get(str(instance.uuid), plan.reason)))
    moved: set[UUID] = set(children.filter(state=RunState.DONE).values_list("instance_uuid", flat=True))
    return DrainView(
        run_uuid=str(run.uuid),
        host=drain.host,
        cell=alias,
        state=run.state,
        is_paused=drain.is_paused,
        requested=requested,
        moved=len(moved),
        moving=children.live().count(),
        is_late=drain.is_late or (run.finished_at is None and _has_passed(alias, drain)),
        left=left,
    )
