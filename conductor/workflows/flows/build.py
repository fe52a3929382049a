"""Flows that build servers: select hosts, create instances in cells, and spawn guests."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID, uuid5

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connections

from conductor.api_db.models import BuildRequest, CellMapping, InstanceMapping
from conductor.cell_db import build_failures
from conductor.cell_db.models import ComputeNode, Instance
from conductor.cells import quarantine
from conductor.core.compute_driver import NetworkPort, VolumeConnection
from conductor.core.errors import HostUnresponsive, NoValidHost
from conductor.core.messages import text_of
from conductor.core.request_spec import RequestSpec
from conductor.core.selection import Selection
from conductor.core.states import PowerState, TaskState, VmState, WaitCause
from conductor.db.transactions import database_now, database_time, each_in_turn, write_tx
from conductor.journal import locks, statements
from conductor.journal.models import StepRecord, WorkflowRun
from conductor.network import ports
from conductor.placement.models import ProviderInventory
from conductor.rpc import backports, outbox
from conductor.rpc.messages import CheckBuild, DestroyInstance, SpawnInstance
from conductor.scheduler import claims, manager
from conductor.workflows.flow import (
    RESCHEDULED,
    UNTIL_DONE,
    Flow,
    RemoteStep,
    Result,
    RetryPolicy,
    SetStep,
    Step,
    StepContext,
    Suspend,
    guarded,
)
from conductor.workflows.steps import instance_rows, instance_state
from conductor.workflows.steps.build_requests import BuryInCell0, forget
from conductor.workflows.steps.on_host import addressed, fresh_guest_of, hold_host, let_go_of_hosts


class SelectDestinations(SetStep):
    """Asks the scheduler for the hosts of all servers at once, claims them and stores the decision.

    With the same step key, a repeated call gets the first answer.
    """

    title = "Select hosts"
    lane = "Scheduler"
    event = "schedule_instances"

    def execute_many(self, works: Sequence[StepContext]) -> Sequence[Result | Exception]:
        early = _before_first_report(works)
        if early:
            late = iter(self.execute_many([work for work in works if work.run.uuid not in early]))
            return [early.get(work.run.uuid) or next(late) for work in works]
        wanted = still_wanted(works)
        requested = [work for work in works if wanted[work.run.uuid]]
        answers = manager.call([_request_of(work, wanted[work.run.uuid]) for work in requested])
        found = {work.run.uuid: answer for work, answer in zip(requested, answers, strict=True)}
        return [_selections(wanted[work.run.uuid], found.get(work.run.uuid, [])) for work in works]

    def revert(self, work: StepContext, result: Result) -> None:
        """Release the claims of servers that have no cell yet."""
        with work.fenced("default"):
            placed = InstanceMapping.objects.filter(
                instance_uuid__in=work.inputs["instance_uuids"], cell__isnull=False
            ).values_list("instance_uuid", flat=True)
            kept = {str(uuid) for uuid in placed}
            for instance_uuid in work.inputs["instance_uuids"]:
                if instance_uuid not in kept:
                    claims.release(instance_uuid)


has_hosts = threading.Event()  # set once a host has reported: a process asks no more after that


def _before_first_report(works: Sequence[StepContext]) -> dict[UUID, Suspend]:
    """Return the waits of runs that began before any host has reported, by run, for as long as the settings allow."""
    seconds = settings.NOVELLA_FIRST_REPORT_SECONDS
    if not seconds or has_hosts.is_set():
        return {}
    if ProviderInventory.objects.exists():
        has_hosts.set()
        return {}
    keys = {work.step_key: work.run.uuid for work in works}
    records = StepRecord.objects.filter(step_key__in=keys, started_at__gt=database_now(-seconds))
    return {
        keys[key]: Suspend(WaitCause.FIRST_REPORT, "", seconds) for key in records.values_list("step_key", flat=True)
    }


def still_wanted(works: Sequence[StepContext]) -> dict[UUID, list[str]]:
    """Return, by run, the uuids of its request that are not deleted meanwhile, in the order requested."""
    rows = BuildRequest.objects.filter(run_uuid__in=[work.run.uuid for work in works], is_deleting=False)
    wanted = {str(uuid) for uuid in rows.values_list("instance_uuid", flat=True)}
    return {work.run.uuid: [uuid for uuid in work.inputs["instance_uuids"] if uuid in wanted] for work in works}


def _request_of(work: StepContext, instance_uuids: Sequence[str]) -> manager.DestinationRequest:
    spec = RequestSpec.from_json({**work.inputs["spec"], "num_instances": len(instance_uuids)})
    return manager.DestinationRequest.of(work, spec, instance_uuids)


def _selections(instance_uuids: Sequence[str], answer: manager.Selections | Exception) -> Result | Exception:
    if isinstance(answer, Exception):
        return answer
    chosen = zip(instance_uuids, answer, strict=True)
    return {"selections": {uuid: [selection.to_json() for selection in selections] for uuid, selections in chosen}}


class CreateInCells(SetStep):
    """Creates the rows in the chosen cells, then maps each request to its cell, or drops a request that was deleted.

    That transaction serializes deletes with the build: it reads `is_deleting` and decides, once.
    """

    title = "Create in cell"
    event = "conductor_schedule_and_build_instances"
    retry = RetryPolicy(max_attempts=5)

    def execute_many(self, works: Sequence[StepContext]) -> Sequence[Result | Exception]:
        results: dict[UUID, Result | Exception] = {work.run.uuid: {} for work in works}
        for cell, rows in _requests_by_cell(works).items():
            run_uuids = {row.run_uuid for row in rows}
            with write_tx(cell):
                failed = guarded(cell, [work for work in works if work.run.uuid in run_uuids])
                rows = [row for row in rows if not row.is_deleting and row.run_uuid not in failed]
                _create(cell, rows)
            results |= failed
        return list(results.values())

    def commit(self, work: StepContext, result: Result) -> None:
        work.run.variables |= _settle(work)

    def revert(self, work: StepContext, result: Result) -> None:
        """Remove the rows."""
        for cell, rows in _requests_by_cell([work]).items():
            remove(work, cell, [str(row.instance_uuid) for row in rows])


def chosen_cells(work: StepContext) -> dict[str, str]:
    """Return the chosen cell of each instance, by uuid."""
    selections: dict[str, list[dict[str, Any]]] = work.result_of(SelectDestinations).get("selections", {})
    return {uuid: chosen[0]["cell"] for uuid, chosen in selections.items()}


def remove(work: StepContext, cell: str, instance_uuids: Sequence[str]) -> None:
    """Delete rows without a mapping."""
    if instance_uuids:
        with work.fenced(cell):
            Instance.objects.using(cell).filter(uuid__in=instance_uuids).delete()


def _requests_by_cell(works: Sequence[StepContext]) -> dict[str, list[BuildRequest]]:
    cells: dict[str, str] = {}
    for work in works:
        cells |= chosen_cells(work)
    by_cell: dict[str, list[BuildRequest]] = defaultdict(list)
    for row in BuildRequest.objects.filter(run_uuid__in=[work.run.uuid for work in works]):
        if str(row.instance_uuid) in cells:
            by_cell[cells[str(row.instance_uuid)]].append(row)
    return by_cell


def _create(cell: str, rows: list[BuildRequest]) -> None:
    """Insert the instances that are not there yet; inside `write_tx(cell)`."""
    uuids = [row.instance_uuid for row in rows]
    there = set(Instance.objects.using(cell).filter(uuid__in=uuids).values_list("uuid", flat=True))
    now = database_time(cell)
    missing = [
        {"uuid": row.instance_uuid, **row.instance, "created_at": row.created_at, "updated_at": now}
        for row in rows
        if row.instance_uuid not in there
    ]
    instance_rows.ROWS.insert_all(connections[cell], missing)


def _settle(work: StepContext) -> dict[str, Any]:
    """Map created instances to their cells and drop those deleted meanwhile; inside the journal's transaction."""
    chosen = chosen_cells(work)
    rows = {str(row.instance_uuid): row for row in BuildRequest.objects.filter(run_uuid=work.run.uuid)}
    dropped = sorted(uuid for uuid, row in rows.items() if row.is_deleting or uuid not in chosen)
    created = {uuid: chosen[uuid] for uuid in rows if uuid not in dropped}
    for cell in sorted(set(created.values())):
        mine = [uuid for uuid, home in created.items() if home == cell]
        home_id = CellMapping.objects.filter(name=cell).values("pk")
        InstanceMapping.objects.filter(instance_uuid__in=mine).update(cell_id=home_id)
    for uuid in dropped:
        forget(work, uuid)
    BuildRequest.objects.filter(run_uuid=work.run.uuid).delete()
    return {"created": created, "dropped": dropped}


MOST_AT_ONCE = 64  # so that cells start with the first of many while others are handed over


class HandOver(SetStep):
    """Starts one workflow per server in its cell, and removes the rows of requests that were dropped.

    The child's uuid is derived from parent and instance, so a repeat creates no second run.

    No revert: each instance has its cell, and its own run is responsible for it.
    """

    title = "Hand over to cell"
    retry = UNTIL_DONE

    def execute_many(self, works: Sequence[StepContext]) -> Sequence[Result | Exception]:
        results = {
            work.run.uuid: result for work, result in zip(works, each_in_turn(works, _prepare_hand_over), strict=True)
        }
        ready = [work for work in works if not isinstance(results[work.run.uuid], Exception)]
        by_cell: dict[str, list[tuple[StepContext, str]]] = defaultdict(list)
        for work in ready:
            for uuid, cell in work.run.variables["created"].items():
                by_cell[cell].append((work, uuid))
        for cell, pairs in sorted(by_cell.items()):
            for begin in range(0, len(pairs), MOST_AT_ONCE):
                results |= _open_children(cell, pairs[begin : begin + MOST_AT_ONCE])
        return list(results.values())


def _prepare_hand_over(work: StepContext) -> Result:
    """Remove rows of requests that were dropped, and pass on the locks of the others."""
    created: dict[str, str] = work.run.variables["created"]
    cells, dropped = chosen_cells(work), work.run.variables["dropped"]
    for cell in sorted(set(created.values())):
        quarantine.refuse(cell)  # retried until the quarantine is lifted
    for cell in sorted(set(cells.values())):
        remove(work, cell, [uuid for uuid in dropped if cells.get(uuid) == cell])
    _pass_on(work, created)
    return {"children": {uuid: str(child_uuid(work, uuid)) for uuid in created}}


def _pass_on(work: StepContext, created: Mapping[str, str]) -> None:
    """Pass this run's locks of ports and volumes to the children before these exist, without a gap."""
    for cell in sorted(set(created.values())):
        mine = [uuid for uuid, home in created.items() if home == cell]
        for instance in Instance.objects.using(cell).filter(uuid__in=mine).only("uuid", "networks"):
            held = held_beside(work, instance)
            if held:
                child = child_uuid(work, str(instance.uuid))
                with work.fenced("default"):
                    locks.pass_on(work.run, held, holder_uuid=child, holder_alias=cell)


def held_beside(work: StepContext, instance: Instance) -> list[str]:
    """Return the locks of a build besides the instance: existing ports, and its volumes."""
    ports = [f"port:{network['port_id']}" for network in instance.networks if network.get("port_id")]
    return ports + [f"volume:{device['volume_id']}" for device in devices_of(work, str(instance.uuid))]


def devices_of(work: StepContext, instance_uuid: str) -> list[dict[str, Any]]:
    """Return the volumes that the launch reserved for an instance (services.servers.block_devices.take)."""
    devices: dict[str, list[dict[str, Any]]] = work.inputs.get("devices", {})
    return devices.get(instance_uuid, [])


def child_uuid(work: StepContext, instance_uuid: str) -> UUID:
    """Return the uuid of the workflow that builds one instance of a request."""
    return uuid5(work.run.uuid, instance_uuid)


def _open_children(cell: str, pairs: Sequence[tuple[StepContext, str]]) -> dict[UUID, Exception]:
    """Open the runs of these instances, in one transaction; returns the errors by run of the launch."""
    with write_tx(cell):
        failed = guarded(cell, {work.run.uuid: work for work, _ in pairs}.values())
        works = {uuid: work for work, uuid in pairs if work.run.uuid not in failed}
        rows = Instance.objects.using(cell).filter(uuid__in=works, deleted_at__isnull=True).order_by("uuid")
        children = [child_uuid(work, uuid) for uuid, work in works.items()]
        there = set(WorkflowRun.objects.using(cell).filter(uuid__in=children).values_list("uuid", flat=True))
        wanted = [_child_of(works[str(one.uuid)], one) for one in rows.only("uuid", "name", "networks", "task_state")]
        outbox.open_runs(cell, [child for child in wanted if child is not None and child.run_uuid not in there])
    return failed


def _child_of(work: StepContext, instance: Instance) -> outbox.NewRun | None:
    """Return the run that builds one instance in its cell; None where it is being deleted."""
    if instance.task_state == TaskState.DELETING:
        return None
    uuid = str(instance.uuid)
    devices = devices_of(work, uuid)
    selections = work.result_of(SelectDestinations)["selections"][uuid]
    return outbox.NewRun(
        flow="build_from_volumes" if devices else "build_in_cell",
        action="create",
        context=work.context,
        instance_uuid=uuid,
        instance_name=instance.name,
        inputs={"selections": selections, **({"devices": devices} if devices else {})},
        resources=[f"instance:{uuid}", *held_beside(work, instance)],
        parent_uuid=work.run.uuid,
        run_uuid=child_uuid(work, uuid),
    )


class ClaimDestination(Step):
    """Claims a host: the first attempt has the scheduler's claim, later ones claim the next alternate with room."""

    title = "Claim host"
    lane = "Cell conductor"

    def is_local_in(self, work: StepContext) -> bool:
        return work.attempt == 1

    def execute(self, work: StepContext) -> Result:
        if work.attempt == 1:
            return {"selection": work.inputs["selections"][0]}
        instance = instance_rows.read(work)
        alternates = [Selection.from_json(item) for item in alternates_left(work)]
        with work.fenced("default"):
            chosen = manager.claim_alternate(
                str(instance.uuid), project_id=instance.project_id, user_id=instance.user_id, alternates=alternates
            )
        if chosen is None:
            raise NoValidHost("No alternate host in the cell has room any more.")
        return {"selection": chosen.to_json()}

    def commit(self, work: StepContext, result: Result) -> None:
        chosen = Selection.from_json(result["selection"])
        hold_host(work, chosen.host)
        tried = [*work.run.variables.get("tried_hosts", []), chosen.host]
        work.run.variables["tried_hosts"] = tried
        instance_rows.update(work, host=chosen.host, node=chosen.node, availability_zone=chosen.availability_zone)

    def revert(self, work: StepContext, result: Result) -> None:
        """Release the claim, and the ports if the networking belongs to the host that is left."""
        left = Selection.from_json(result["selection"]) if result else None
        owns_networks = left is not None and reports(work, left.host, left.node, "network_is_host_specific")
        error = statements.last_failure(connections[work.alias], work.run.pk, work.attempt)
        with work.fenced("default"):
            claims.release(work.instance_uuid)
            if owns_networks:
                ports.unplug(work.instance_uuid)
            if left is not None and _is_refusal(error):
                manager.mark_refused(work.instance_uuid, left.host, text_of(error))

    def commit_revert(self, work: StepContext) -> None:
        _note_failure(work)
        let_go_of_hosts(work)
        instance_rows.update(work, host=None, node=None)


def reports(work: StepContext, host: str, node: str, capability: str) -> bool:
    """Whether the node's last report has this capability."""
    rows = ComputeNode.objects.using(work.alias).filter(host=host, node=node)
    return rows.filter(**{f"report__capabilities__{capability}": True}).exists()


def _is_refusal(error: Mapping[str, Any]) -> bool:
    """Whether the host answered the check with an error; False where it did not answer, or an operator went on."""
    return error.get("step") == CheckOnHost.name and error["class"] not in (RESCHEDULED, HostUnresponsive.__name__)


def _note_failure(work: StepContext) -> None:
    """Count a failed build against its host, if the spawn failed and another host might succeed."""
    error = statements.last_failure(connections[work.alias], work.run.pk, work.attempt)
    is_the_hosts = error.get("step") == SpawnOnHost.name and error.get("is_reschedulable")
    if is_the_hosts and not error.get("is_ordered") and not work.run.is_cancel_requested:
        build_failures.note(work.alias, instance_rows.read(work).host or "")


def alternates_left(work: StepContext) -> list[dict[str, Any]]:
    """Return selections of this request on hosts that were not tried yet, best first."""
    tried = work.run.variables.get("tried_hosts", [])
    return [selection for selection in work.inputs["selections"] if selection["host"] not in tried]


class CheckOnHost(RemoteStep):
    """Asks the host whether it can build the guest, before anything is prepared for it: a refusal costs little.

    No revert: the host does nothing. A host is not asked if its driver has no check, or if it is of an earlier release.
    """

    title = "Check on host"

    def command(self, work: StepContext) -> Any:
        chosen = Selection.from_json(work.result_of(ClaimDestination)["selection"])
        is_known = backports.knows(work.alias, chosen.host, CheckBuild)
        if not is_known or not reports(work, chosen.host, chosen.node, "checks_builds"):
            return None
        volumes = tuple(  # neither filled nor connected yet
            VolumeConnection(one["volume_id"], "", 0, device_name=one["device_name"], boot_index=one["boot_index"])
            for one in work.inputs.get("devices", ())
        )
        guest = fresh_guest_of(work, instance_rows.read(work), ports=(), volumes=volumes, user_data="", files=())
        return CheckBuild(**addressed(work, chosen.host), guest=guest)


class PlugNetworks(SetStep):
    """Gives the instance its ports, or binds those of an earlier attempt to this attempt's host.

    No revert: the ports stay with the instance until its build ends, so that it has the same addresses on each host.
    `MarkFailed` releases them, and `ClaimDestination` those of a host whose networking is its own.
    """

    title = "Plug networks"
    lane = "Cell conductor"
    event = "compute_allocate_networks"

    def on_start(self, work: StepContext) -> None:
        instance_rows.update(work, task_state=TaskState.NETWORKING)

    def execute_many(self, works: Sequence[StepContext]) -> Sequence[Result | Exception]:
        with write_tx("default"):
            return each_in_turn(works, _plug)

    def commit(self, work: StepContext, result: Result) -> None:
        instance_rows.update(work, addresses=result["ports"])


def _plug(work: StepContext) -> Result:
    """Give an instance its ports; in an open transaction, as a fenced savepoint of it."""
    instance = instance_rows.read(work)
    with work.fenced("default"):
        plugged = ports.plug(
            instance_uuid=str(instance.uuid),
            project_id=instance.project_id,
            networks=instance.networks,
            binding=ports.Binding(
                instance.host or "",
                f"compute:{instance.availability_zone}",
                instance.security_groups,
                instance.hostname,
            ),
        )
    return {"ports": plugged}


class SpawnOnHost(RemoteStep):
    """Has the host build the guest, and suspends until its answer."""

    title = "Spawn on host"
    event = "compute__do_build_and_run_instance"

    def on_start(self, work: StepContext) -> None:
        instance_rows.update(work, task_state=TaskState.SPAWNING)

    def command(self, work: StepContext) -> Any:
        instance = instance_rows.read(work)
        ports = tuple(NetworkPort(**port) for port in work.result_of(PlugNetworks)["ports"])
        return SpawnInstance(**addressed(work, instance.host or ""), guest=fresh_guest_of(work, instance, ports=ports))

    def commit(self, work: StepContext, result: Result) -> None:
        instance_rows.update(work, power_state=PowerState.RUNNING)

    def revert_command(self, work: StepContext) -> Any:
        """Destroy the guest."""
        host = instance_rows.read(work).host
        return DestroyInstance(**addressed(work, host)) if host else None

    def commit_revert(self, work: StepContext) -> None:
        instance_rows.update(work, power_state=PowerState.NOSTATE)


class MarkActive(Step):
    """Sets the server to active."""

    title = "Activate"
    lane = "Cell conductor"

    def commit(self, work: StepContext, result: Result) -> None:
        instance_rows.update(work, vm_state=VmState.ACTIVE, task_state=None, launched_at=database_now())


class MarkFailed(Step):
    """Sets the server to error with the first cause as its fault, and releases the ports of all attempts."""

    title = "Mark as failed"
    lane = "Cell conductor"
    retry = UNTIL_DONE

    def is_final(self, work: StepContext, error: Mapping[str, Any]) -> bool:
        """Whether the ports are released: an operator decides about the rest. False while their database is away."""
        try:
            return not ports.has_plugged(work.instance_uuid)
        except (DatabaseError, InterfaceError):
            return False

    def execute(self, work: StepContext) -> Result:
        with work.fenced("default"):
            ports.unplug(work.instance_uuid)
        return {}

    def commit(self, work: StepContext, result: Result) -> None:
        instance_rows.update(work, addresses=[])
        if instance_rows.read(work).task_state == TaskState.DELETING:
            return  # the delete that cancelled the build continues
        instance_state.keep_first_cause(work)
        instance_rows.update(work, vm_state=VmState.ERROR, task_state=None)


BUILD_INSTANCES = Flow(
    "build_instances",
    version=1,
    steps=(
        SelectDestinations(),  # one pass for all; claims in placement; revert releases the claims
        CreateInCells(),  # rows in the chosen cells; mappings get their cell, the build requests are deleted
        HandOver(),  # one workflow per instance, in its cell
    ),
    on_cancel=BuryInCell0(),
    on_failure=BuryInCell0(),  # never got a host: kept in cell0 in error, with the decision as its fault
    cancellable_until="CreateInCells",
    is_retryable=False,  # the request is closed when it fails, and its instances are in cell0
)


class BuildInCell(Flow):
    def next_attempt(self, work: StepContext) -> bool:
        return bool(alternates_left(work))


BUILD_IN_CELL = BuildInCell(
    "build_in_cell",
    version=1,
    steps=(
        ClaimDestination(),  # the scheduler's claim, later the next alternate's; revert releases it
        CheckOnHost(),  # one command to the host, which may refuse; nothing is prepared yet
        PlugNetworks(),  # ports get addresses and the host; all attempts share them
        SpawnOnHost(),  # one command to the host, the run suspends; revert destroys the guest
        MarkActive(),
    ),
    on_failure=MarkFailed(),  # releases the ports
    on_cancel=MarkFailed(),
    max_attempts=settings.NOVELLA_MAX_BUILD_ATTEMPTS,
)
