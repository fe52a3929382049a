"""Rows that tests need, as the product itself would have left them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from conductor import events
from conductor.api_db.models import CellMapping, HostMapping, InstanceMapping, SchedulingDecision
from conductor.cell_db.models import ComputeNode, ConsoleLog, Instance, InstanceFault, Service
from conductor.core.compute_driver import CAPABILITIES
from conductor.core.context import RequestContext
from conductor.core.host_state import HostState
from conductor.core.request_spec import FlavorSpec, ImageSpec, RequestSpec
from conductor.core.scheduling import snapshots
from conductor.core.states import PowerState, RunState, StepState, VmState
from conductor.db.transactions import write_tx
from conductor.identity.effective import is_admin_project
from conductor.identity.models import Domain, Project, Role, RoleAssignment, User
from conductor.identity.roles import implied_names
from conductor.image.models import Image
from conductor.journal.models import ResourceLock, StepRecord, WorkflowRun
from conductor.network.models import Network, Subnet
from conductor.rpc.versions import SERVICE_VERSION
from tests.people import PASSWORD

SMALL = FlavorSpec("2", "small", vcpus=1, memory_mb=512, root_gb=5)
LINUX = ImageSpec("5f1c0a6e-0000-4000-8000-000000000001", "simulated-linux", size=4096)

API_PLAN = [
    {"name": "SelectDestinations", "title": "Select hosts", "lane": "Scheduler", "event": "schedule_instances"},
    {"name": "CreateInCells", "title": "Create in cell", "lane": "Conductor", "event": ""},
    {"name": "HandOver", "title": "Hand over to cell", "lane": "Conductor", "event": ""},
]
CELL_PLAN = [
    {"name": "ClaimDestination", "title": "Claim host", "lane": "Cell conductor", "event": ""},
    {"name": "PlugNetworks", "title": "Plug networks", "lane": "Cell conductor", "event": ""},
    {"name": "SpawnOnHost", "title": "Spawn on host", "lane": "Compute", "event": ""},
    {"name": "MarkActive", "title": "Activate", "lane": "Cell conductor", "event": ""},
]


def image(name: str, caller: RequestContext, **values: Any) -> Image:
    """Create a public image, ready to boot from."""
    defaults: dict[str, Any] = {
        "status": "active",
        "visibility": "public",
        "disk_format": "raw",
        "container_format": "bare",
        "size": 4096,
        "checksum": "d41d8cd98f00b204e9800998ecf8427e",
        "created_at": ago(900),
        "updated_at": ago(900),
    }
    return Image.objects.create(name=name, project_id=caller.project_id, **{**defaults, **values})


def network(name: str, caller: RequestContext, cidr: str = "10.64.0.0/20", **values: Any) -> Network:
    """Create a shared network with one subnet."""
    times = {"created_at": ago(900), "updated_at": ago(900)}
    defaults: dict[str, Any] = {"is_shared": True, "project_id": caller.project_id}
    made = Network.objects.create(name=name, **{**defaults, **values}, **times)
    Subnet.objects.create(
        network=made, name=f"{name}-subnet", project_id=caller.project_id, cidr=cidr, gateway_ip="10.64.0.1",
        allocation_pools=[{"start": "10.64.0.10", "end": "10.64.15.254"}], **times,
    )  # fmt: skip
    return made


def ago(seconds: float) -> datetime:
    """Return a moment in the past."""
    return datetime.now(UTC) - timedelta(seconds=seconds)


def project(name: str) -> Project:
    """Return a project of the default domain; the same one for the same name."""
    domain, _ = Domain.objects.get_or_create(id="default", defaults={"name": "Default"})
    return Project.objects.get_or_create(domain=domain, name=name)[0]


def user(name: str, **roles: str) -> User:
    """Create a person with a role in each project named: user("ana", shop="member")."""
    domain, _ = Domain.objects.get_or_create(id="default", defaults={"name": "Default"})
    found = User.objects.filter(username=name).first()
    if found is None:
        found = User(username=name, domain=domain)
        found.set_password(PASSWORD)
        found.save()
    for project_name, role_name in roles.items():
        role, _ = Role.objects.get_or_create(name=role_name)
        RoleAssignment.objects.get_or_create(user=found, project=project(project_name), role=role)
    return found


def context(name: str, project_name: str) -> RequestContext:
    """Return the caller that a person is in a project."""
    person, place = User.objects.get(username=name), project(project_name)
    names = RoleAssignment.objects.filter(user=person, project=place).values_list("role__name", flat=True)
    return RequestContext(
        user_id=person.pk,
        project_id=place.pk,
        request_id=f"req-{uuid4()}",
        roles=implied_names(names),
        user_name=name,
        project_name=project_name,
        is_on_admin_project=is_admin_project(place),
    )


def cells() -> list[CellMapping]:
    """Return the cells of the test settings, cell0 first."""
    return [CellMapping.objects.get_or_create(name=name)[0] for name in ("cell0", "cell1", "cell2")]


def host(name: str, cell: str = "cell1", *, zone: str = "az-1", seen: float = 0.0, **service: Any) -> Service:
    """Create a simulated compute host whose last heartbeat was `seen` seconds ago."""
    HostMapping.objects.get_or_create(host=name, defaults={"cell": CellMapping.objects.get(name=cell)})
    inventory = {
        "VCPU": {"total": 16, "reserved": 0, "allocation_ratio": 4.0},
        "MEMORY_MB": {"total": 32_768, "reserved": 512, "allocation_ratio": 1.0},
        "DISK_GB": {"total": 400, "reserved": 0, "allocation_ratio": 1.0},
    }
    ComputeNode.objects.using(cell).create(
        host=name,
        node=name,
        driver="fake",
        is_simulated=True,
        hypervisor_type="fake",
        report={"node": name, "inventory": inventory, "capabilities": {"actions": sorted(CAPABILITIES)}},
        created_at=ago(900),
        updated_at=ago(seen),
    )
    service = {"version": SERVICE_VERSION, **service}
    values = {"is_simulated": True, "last_seen_at": ago(seen), "created_at": ago(900), "availability_zone": zone}
    return Service.objects.using(cell).create(binary="nova-compute", host=name, **{**values, **service})


def instance(caller: RequestContext, name: str, *, cell: str = "cell1", age: float = 60, **values: Any) -> Instance:
    """Create an instance in a cell, active by default; `build_run_uuid` names the run that built it."""
    uuid = values.pop("uuid", None) or uuid4()
    build_run_uuid = values.pop("build_run_uuid", None) or uuid4()
    InstanceMapping.objects.create(
        instance_uuid=uuid,
        cell=CellMapping.objects.get(name=cell),
        project_id=caller.project_id,
        user_id=caller.user_id,
        vcpus=SMALL.vcpus,
        memory_mb=SMALL.memory_mb,
        build_run_uuid=build_run_uuid,
        created_at=ago(age),
    )
    defaults: dict[str, Any] = {
        "hostname": name,
        "vm_state": VmState.ACTIVE,
        "power_state": PowerState.RUNNING,
        "host": "sim-1",
        "node": "sim-1",
        "availability_zone": "az-1",
        "flavor": asdict(SMALL),
        "image": asdict(LINUX),
        "reservation_id": "r-0000",
        "created_at": ago(age),
        "updated_at": ago(age / 2),
        "launched_at": ago(age / 2),
    }
    row = {**defaults, **values, "uuid": uuid, "name": name}
    return Instance.objects.using(cell).create(project_id=caller.project_id, user_id=caller.user_id, **row)


def address(ip_address: str, network: str = "private") -> dict[str, Any]:
    """Return a plugged port, as an instance keeps it."""
    return {
        "port_uuid": str(uuid4()),
        "network_name": network,
        "mac_address": "fa:16:3e:10:20:30",
        "ip_address": ip_address,
        "prefix_length": 20,
        "cidr": "10.64.0.0/20",
        "gateway_ip": "10.64.0.1",
        "dns_nameservers": [],
    }


def fault(of: Instance, message: str, cell: str, **values: Any) -> InstanceFault:
    """Store why an instance is in error."""
    return InstanceFault.objects.using(cell).create(instance_uuid=of.uuid, message=message, created_at=ago(5), **values)


def console(of: Instance, text: str, cell: str = "cell1") -> ConsoleLog:
    """Write an instance's console log."""
    return ConsoleLog.objects.using(cell).create(instance_uuid=of.uuid, text=text, updated_at=ago(0))


def run(caller: RequestContext, alias: str = "default", *, age: float = 10, **values: Any) -> WorkflowRun:
    """Create a workflow run; by default a build at the API level that has just begun."""
    is_api = alias == "default"
    defaults: dict[str, Any] = {
        "flow": "build_instances" if is_api else "build_in_cell",
        "flow_version": 1,
        "action": "create",
        "state": RunState.RUNNING,
        "queue": "conductor" if is_api else f"conductor.{alias}",
        "plan": API_PLAN if is_api else CELL_PLAN,
        "owner": "worker-1",
        "fencing_token": 7,
        "wake_at": ago(0),
        "created_at": ago(age),
        "started_at": ago(age - 0.2),
        "context": caller.to_json(),
    }
    return WorkflowRun.objects.using(alias).create(
        project_id=caller.project_id,
        user_id=caller.user_id,
        user_name=caller.user_name,
        request_id=caller.request_id,
        **{**defaults, **values},
    )


def step(of: WorkflowRun, index: int, begun: float, ended: float | None = None, **values: Any) -> StepRecord:
    """Create an attempt of a step that began and ended so many seconds ago; without an end it is running."""
    defaults: dict[str, Any] = {
        "state": StepState.DONE if ended is not None else StepState.RUNNING,
        "name": of.plan[index]["name"] if index < len(of.plan) else "MarkFailed",
        "worker": "worker-1",
        "fencing_token": 7,
        "step_key": str(uuid4()),
        "started_at": ago(begun),
        "finished_at": ago(ended) if ended is not None else None,
    }
    return StepRecord.objects.using(of._state.db).create(run=of, index=index, **{**defaults, **values})


def lock(of: WorkflowRun, resource: str) -> ResourceLock:
    """Lock a resource for a run."""
    return ResourceLock.objects.using(of._state.db).create(resource=resource, run=of, granted_at=ago(5))


def emit(of: WorkflowRun, kind: str, **data: Any) -> None:
    """Append an event about a run, as the engine does."""
    alias = str(of._state.db)
    with write_tx(alias):
        events.append(alias, events.about_run(of), kind, data)


def emit_instance_event(of: Instance, cell: str, kind: str = "instance.updated") -> None:
    """Append an event about an instance."""
    with write_tx(cell):
        events.append(cell, events.about_instance(of.uuid, of.project_id), kind)


def decision(of: WorkflowRun, *, summary: dict[str, Any], details: dict[str, Any], **values: Any) -> SchedulingDecision:
    """Create a stored scheduling decision."""
    defaults: dict[str, Any] = {"is_successful": True, "selections": [], "created_at": ago(5), "step_key": str(uuid4())}
    return SchedulingDecision.objects.create(
        run_uuid=of.uuid, project_id=of.project_id, summary=summary, details=details, **{**defaults, **values}
    )


def build(
    caller: RequestContext, name: str, cell: str = "cell1", *, age: float = 12
) -> tuple[WorkflowRun, WorkflowRun]:
    """Create a build that was handed to a cell and is at its third step there. Return the run of each."""
    uuid: UUID = uuid4()
    parent = run(
        caller, age=age, state=RunState.DONE, position=3, finished_at=ago(age - 0.8), owner=None, instance_name=name,
        instance_uuid=uuid,
    )  # fmt: skip
    for index, (begun, ended) in enumerate(((age - 0.2, age - 0.5), (age - 0.5, age - 0.7), (age - 0.7, age - 0.8))):
        step(parent, index, begun, ended)
    child = run(
        caller, cell, age=age - 0.8, parent_uuid=parent.uuid, instance_uuid=uuid, instance_name=name, position=2,
        state=RunState.WAITING, owner=None, waits_for={"cause": "host", "detail": "sim-1"},
    )  # fmt: skip
    step(child, 0, age - 1.0, age - 1.1)
    step(child, 1, age - 1.1, age - 1.9)
    step(child, 2, age - 1.9, None, host="sim-1", state=StepState.WAITING, progress={"message": "starting the guest"})
    lock(child, f"instance:{uuid}")
    instance(
        caller, name, cell=cell, age=age, uuid=uuid, build_run_uuid=parent.uuid, vm_state=VmState.BUILDING,
        task_state="spawning", power_state=PowerState.NOSTATE, launched_at=None, addresses=[address("10.64.0.17")],
    )  # fmt: skip
    return parent, child


def builds(caller: RequestContext, names: Sequence[str]) -> list[tuple[WorkflowRun, WorkflowRun]]:
    return [build(caller, name) for name in names]


def some_decision() -> dict[str, Any]:
    """Summary, details and selections of a decision about three hosts, one of which was left out."""
    uuid = str(uuid4())
    summary = {**DECISION, "instance_uuids": [uuid], "fates": {uuid: {"sim-1": "used"}}}
    alternate = {"host": "sim-2", "cell": "cell1"}
    return {"summary": summary, "details": _details(), "selections": [[{"host": "sim-1", "cell": "cell1"}, alternate]]}


def failed_decision(of: WorkflowRun) -> SchedulingDecision:
    """Create a decision that found no host: two filters, four hosts, with the stored request and hosts."""
    names = ("compute-with-a-rather-long-name-1.rack-7.example", "sim-2", "sim-3", "sim-4")
    base = HostState(
        host="", node="", cell="cell1", provider_uuid="", availability_zone="az-1", vcpus=8, vcpus_used=0,
        memory_mb=2048, memory_mb_used=0, disk_gb=100, disk_gb_used=0,
    )  # fmt: skip
    states = [
        replace(base, host=name, node=name, provider_uuid=name, memory_mb_used=512 * row, is_disabled=row == 3)
        for row, name in enumerate(names)
    ]
    spec = RequestSpec(of.project_id, of.user_id, FlavorSpec("1", "small", 1, 4096, root_gb=1))
    summary = {**DECISION, "instance_uuids": [str(uuid4())], "fates": {}, "plugins": "", "num_hosts": 4}
    return decision(
        of,
        summary=summary,
        details={"hosts": [], "weights": [], "nearest": [], "lost_races": []},
        is_successful=False,
        request=spec.to_json(),
        snapshot_rows=snapshots.pack(states),
    )


DECISION: dict[str, Any] = {
    "seed": 7741,
    "snapshot_age_seconds": 0.412,
    "num_instances": 1,
    "num_hosts": 3,
    "funnel": [
        {"filter": "placement", "before": 3, "after": 3, "rejected": 0, "milliseconds": 0.1},
        {"filter": "compute_status", "before": 3, "after": 2, "rejected": 1, "milliseconds": 0.02},
    ],
    "advice": ["1 of 3 hosts: host is down"],
    "faults": [],
    "missing_cells": {},
}


def _details() -> dict[str, Any]:
    ram = {"weigher": "ram", "raw": 20.0, "normalized": 1.0, "multiplier": 1.0, "weight": 1.0}
    failures = {"weigher": "build_failure", "raw": 1.0, "normalized": 0.5, "multiplier": -1.0, "weight": -0.5}
    fits = {"cell": "cell1", "zone": "az-1", "is_simulated": True, "passed": True, "rejected_by": ""}
    empty = {"reason": "", "need": "", "have": ""}
    down = {"passed": False, "rejected_by": "compute_status", "reason": "host is down", "need": "up", "have": "down"}
    return {
        "hosts": [
            {"host": "sim-1", **fits, **empty},
            {"host": "sim-2", **fits, **empty},
            {"host": "sim-3", **fits, **down},
        ],
        "weights": [
            {"host": "sim-1", "total": 1.0, "parts": [ram]},
            {"host": "sim-2", "total": 0.5, "parts": [ram, failures]},
        ],
        "nearest": [],
        "lost_races": [],
    }
