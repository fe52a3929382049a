"""Costs of lists: as many statements for two rows of each kind as for one, in all databases together."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connections

from conductor.api_db.models import AggregateHost, Budget, Finding, QuotaRequest
from conductor.cell_db.models import BlockDevice, Migration, Service
from conductor.cells.lookup import journal_aliases
from conductor.core.context import RequestContext
from conductor.core.states import RunState
from conductor.identity.models import Project, RoleAssignment, User
from conductor.journal.models import WorkflowRun
from conductor.volume.models import Volume
from tests import factories
from tests.compute_rows import make_cloud, make_host, make_instance
from tests.counting import Captured
from tests.integration.page_clients import signed_in
from tests.people import People

PUBLIC = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAkO8wRy7D4Jy2Fz2yl5d0RtmVv5Ijq2kCsmmRRcnq7Y ana@laptop"
START = datetime.now(UTC) - timedelta(days=1)
LATE = START + timedelta(days=2)
LAUNCHED = {"vm_state": "error", "launched_at": START}
SERVER = "SERVER"  # one that all rows are about
LISTS = (
    *(
        f"/compute/v2.1/{name}"
        for name in (
            *("servers/detail", "servers/detail?all_tenants=1", "flavors/detail", "os-keypairs", "os-server-groups"),
            *("os-aggregates", "os-hypervisors/detail", "os-services", "os-migrations", "os-availability-zone/detail"),
            *(f"servers/{SERVER}/os-instance-actions", f"servers/{SERVER}/os-volume_attachments"),
            "os-simple-tenant-usage?detailed=1",
        )
    ),
    *(
        f"/network/v2.0/{name}"
        for name in (
            *("networks", "subnets", "ports", "routers", "security-groups", "security-group-rules", "floatingips"),
            *("rbac-policies", "network-ip-availabilities", "subnetpools", "qos/policies"),
        )
    ),
    *(
        f"/volume/v3/{name}"
        for name in (
            *("volumes", "volumes/detail", "snapshots/detail", "types"),
            *("os-volume-transfer/detail", "qos-specs"),
        )
    ),
    "/image/v2/images",
    *(
        f"/identity/v3/{name}"
        for name in (
            *("projects", "users", "roles", "role_assignments", "role_assignments?include_names", "groups", "domains"),
            *("services", "endpoints", "regions", "role_inferences"),
        )
    ),
    "/placement/resource_providers",
    *(
        f"/api/{name}"
        for name in (
            *("workflows", "events?after=cell1:0", "locks", "hosts", "audit", "decisions", "findings"),
            *("triage", "subscriptions", "quota-requests", "announcements?all=true", "snapshot-schedules", "budgets"),
            *("what-if/proposals", "approvals"),
        )
    ),
)
PAGES = ("/hosts", "/audit", "/triage", "/notifications/subscriptions", "/quota-requests", "/budgets")


def statements(client: Any, path: str) -> tuple[list[str], int]:
    """Return the statements on all databases, and the length of the response."""
    with ExitStack() as stack:
        seen = [stack.enter_context(Captured(connections[alias])) for alias in connections]
        answer = client.get(path)
    assert answer.status_code == 200, (path, answer.content[:300])
    return [query["sql"] for one in seen for query in one.captured_queries], len(answer.content)


class Rows:
    """Makes one of everything that there are lists of, each with what hangs on it."""

    def __init__(self, client: Any, people: People, context: RequestContext) -> None:
        self.client, self.people, self.context = client, people, context
        self.server = make_instance(context, "cell1", "all", host="sim-0")
        self.number = 0

    def make(self, path: str, **body: Any) -> Any:
        answer = self.client.post(path, body)
        assert answer.status_code in (200, 201, 202), (path, answer.content[:300])
        return next(iter(answer.json().values()))

    def add(self) -> None:
        self.number += 1
        self.of_compute()
        self.of_networks()
        self.of_volumes()
        self.of_identity()
        self.of_workflows()
        self.make_timeless()

    def make_timeless(self) -> None:
        """Make due work overdue and heartbeats permanent, so that nothing changes on a slow machine."""
        for alias in journal_aliases():
            live = WorkflowRun.objects.using(alias).live()
            live.filter(owner=None).update(wake_at=factories.ago(3600))
            live.exclude(owner=None).update(lease_expires_at=factories.ago(-3600))
        Service.objects.using("cell1").update(last_seen_at=factories.ago(-3600))

    def of_compute(self) -> None:
        name, api = f"n-{self.number}", "/compute/v2.1"
        host = make_host("cell1", f"sim-{self.number}").host
        server = make_instance(self.context, f"cell{self.number % 2 + 1}", name, host=host, **LAUNCHED)
        factories.fault(server, "broken", f"cell{self.number % 2 + 1}")
        flavor = self.make(f"{api}/flavors", flavor={"name": name, "ram": 64, "vcpus": 1, "disk": 1})["id"]
        self.make(f"{api}/flavors/{flavor}/os-extra_specs", extra_specs={"hw:cpu_policy": "shared"})
        self.make(f"{api}/os-keypairs", keypair={"name": name, "public_key": PUBLIC})
        self.make(f"{api}/os-server-groups", server_group={"name": name, "policy": "affinity"})
        aggregate = self.make(f"{api}/os-aggregates", aggregate={"name": name, "availability_zone": f"az-{name}"})["id"]
        AggregateHost.objects.create(aggregate_id=aggregate, host=host)
        Migration.objects.using("cell1").create(
            instance_uuid=self.server.uuid, migration_type="migration", status="done", source_host=host,
            project_id=self.context.project_id, user_id=self.context.user_id, created_at=factories.ago(9),
            updated_at=factories.ago(9), run_uuid=uuid4(),
        )  # fmt: skip
        made = self.client.post("/placement/resource_providers", {"name": name, "uuid": str(uuid4())})
        assert made.status_code == 201, made.content

    def of_networks(self) -> None:
        name, api = f"n-{self.number}", "/network/v2.0"
        outer = self.make(f"{api}/networks", network={"name": f"{name}-out", "router:external": True})["id"]
        self.make(f"{api}/subnets", subnet={"network_id": outer, "cidr": f"172.20.{self.number}.0/24", "ip_version": 4})
        inner = self.make(f"{api}/networks", network={"name": name})["id"]
        subnet = self.make(
            f"{api}/subnets", subnet={"network_id": inner, "cidr": f"10.9.{self.number}.0/24", "ip_version": 4}
        )["id"]
        group = self.make(f"{api}/security-groups", security_group={"name": name})["id"]
        rule = {"security_group_id": group, "direction": "ingress", "ethertype": "IPv4", "protocol": "tcp"}
        self.make(f"{api}/security-group-rules", security_group_rule=rule)
        gateway = {"network_id": outer}
        router = self.make(f"{api}/routers", router={"name": name, "external_gateway_info": gateway})["id"]
        added = self.client.put(f"{api}/routers/{router}/add_router_interface", {"subnet_id": subnet})
        assert added.status_code == 200, added.content
        port = self.make(f"{api}/ports", port={"network_id": inner, "security_groups": [group]})["id"]
        self.make(f"{api}/floatingips", floatingip={"floating_network_id": outer, "port_id": port})
        policy = {"object_type": "network", "object_id": inner, "action": "access_as_shared"}
        self.make(f"{api}/rbac-policies", rbac_policy={**policy, "target_tenant": self.people.bo.project.id})
        policy_id = self.make(f"{api}/qos/policies", policy={"name": name})["id"]
        self.make(f"{api}/qos/policies/{policy_id}/bandwidth_limit_rules", bandwidth_limit_rule={"max_kbps": 1000})
        self.make(f"{api}/ports", port={"network_id": inner, "qos_policy_id": policy_id})
        self.make(f"{api}/subnetpools", subnetpool={"name": name, "prefixes": [f"10.{100 + self.number}.0.0/16"]})

    def of_volumes(self) -> None:
        name, api = f"n-{self.number}", "/volume/v3"
        self.make(f"{api}/types", volume_type={"name": name, "extra_specs": {"a": "b"}})
        made = [self.make(f"{api}/volumes", volume={"size": 1, "metadata": {"a": "b"}})["id"] for _ in range(3)]
        Volume.objects.filter(uuid__in=made).update(status="available")
        volume, snapped, given = made
        self.make(f"{api}/snapshots", snapshot={"volume_id": snapped, "name": name})
        schedule = {"volume": snapped, "every": "day", "at": "02:00", "keep": 1}
        self.make("/api/snapshot-schedules", snapshot_schedule=schedule)
        self.make(f"{api}/os-volume-transfer", transfer={"volume_id": given, "name": name})
        BlockDevice.objects.using("cell1").create(
            instance_uuid=self.server.uuid, volume_uuid=UUID(volume), device_name=f"/dev/vd{chr(98 + self.number)}",
            created_at=factories.ago(5),
        )  # fmt: skip
        self.make(f"{api}/qos-specs", qos_specs={"name": name, "consumer": "front-end"})
        factories.image(name, self.context, properties={"os_distro": "x"}, tags=["a", name])

    def of_identity(self) -> None:
        name, admin, api = f"more-{self.number}", self.people.admin, "/identity/v3"
        project = Project.objects.create(domain=admin.project.domain, name=name)
        user = User.objects.create(domain=admin.user.domain, username=name, default_project_id=project.id)
        RoleAssignment.objects.create(user=user, project=project, role=self.people.ana.role)
        for noun, body in (
            ("groups", {"group": {"name": name}}),
            ("domains", {"domain": {"name": name}}),
            ("regions", {"region": {"id": name}}),
        ):
            self.make(f"{api}/{noun}", **body)
        role = self.make(f"{api}/roles", role={"name": name})["id"]
        implied = self.client.put(f"{api}/roles/{role}/implies/{self.people.ana.role.id}")
        assert implied.status_code == 201, implied.content
        service = self.make(f"{api}/services", service={"type": name, "name": name})["id"]
        endpoint = {"service_id": service, "interface": "public", "url": "http://x.example"}
        self.make(f"{api}/endpoints", endpoint=endpoint)

    def of_workflows(self) -> None:
        name = f"w-{self.number}"
        parent, child = factories.build(self.context, name)
        factories.failed_decision(parent)
        factories.emit(child, "run.waits")
        again = replace(self.context, request_id=f"req-{uuid4()}")
        about = {"instance_uuid": self.server.uuid, "instance_name": "all", "action": "reboot"}
        factories.run(again, "cell1", state=RunState.DONE, **about)
        factories.run(self.context, "cell1", instance_uuid=uuid4(), instance_name=name, state=RunState.FAILED_NOT_CLEAN)
        Finding.objects.create(
            kind="lock_without_run", subject=f"lock:cell1:{name}", severity="warning", detail="left behind",
            first_seen_at=factories.ago(5), last_seen_at=factories.ago(5), times_seen=2,
        )  # fmt: skip
        requested = {"reason": "gone", "step": "", "mark": ""}
        fields = {"intervention": "force", "by": "bo", "by_id": "b", "request": requested, "at": START.isoformat()}
        factories.run(again, "cell1", state=RunState.NEEDS_OPERATOR, approval={**fields, "until": LATE.isoformat()})
        changes = {"weigher": {"RAMWeigher": {"multiplier": 2.0 + self.number}}}
        self.make("/api/what-if/proposals", plugins=changes, reason=name)
        self.make("/api/subscriptions", name=name, channel="bell")
        project = Project.objects.create(domain=self.people.admin.project.domain, name=f"saves-{name}")
        Budget.objects.create(project_id=project.id, amount=5, currency="EUR", updated_at=START)
        self.make("/api/announcements", announcement={"title": name})
        QuotaRequest.objects.create(
            project_id=self.context.project_id, user_id=self.context.user_id, user_name="admin", created_at=START,
            wanted={"instances": 100 + self.number}, had={"instances": 10}, reason="a fair",
        )  # fmt: skip


@pytest.fixture
def rows(people: People, api_client: Any) -> Rows:
    make_cloud(people)
    make_host("cell1", "sim-0")
    return Rows(api_client("admin", version="2.96"), people, people.admin.context())


def test_lists_and_pages_ask_as_often_for_two_rows_of_each_kind_as_for_one(rows: Rows) -> None:
    places: dict[str, Any] = dict.fromkeys(PAGES, signed_in("admin")) | dict.fromkeys(LISTS, rows.client)

    def requested(path: str) -> tuple[list[str], int]:
        return statements(places[path], path.replace(SERVER, str(rows.server.uuid)))

    rows.add()
    for path in places:
        requested(path)  # what is kept for a while is read by now
    found, wrong = {path: requested(path) for path in places}, {}
    rows.add()
    for path, (few, size) in found.items():
        many, larger = requested(path)
        for _ in range(3):  # rights have changed, so tokens are looked at again; what is kept for seconds may be over
            if len(many) > len(few):
                many, larger = requested(path)
        if len(many) > len(few):
            wrong[path] = f"{len(few)} statements, then {len(many)}, such as {max(many, key=many.count)}"
        elif larger <= size:
            wrong[path] = f"nothing was added to it: {size} bytes, then {larger}; it asked {many[-1:]}"
    assert not wrong, "\n".join(f"{path}: {what}" for path, what in wrong.items())
