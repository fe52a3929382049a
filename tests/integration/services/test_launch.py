"""Launches of servers: the rows that they write, and refusals, which write nothing."""

from __future__ import annotations

import threading
import uuid
from dataclasses import replace
from typing import Any

import pytest
from django.db import connections

from conductor.api_db.models import (
    BuildRequest,
    HostMapping,
    InstanceGroup,
    InstanceGroupMember,
    InstanceMapping,
    KeyPair,
    Quota,
    RequestSpecRecord,
)
from conductor.core.errors import Conflict, Forbidden, Invalid, QuotaExceeded, ResourceLocked
from conductor.core.request_spec import RequestSpec
from conductor.core.states import RunState
from conductor.db.transactions import database_now
from conductor.journal.models import Event, ResourceLock, WorkflowRun
from conductor.network.models import Port, SecurityGroup
from conductor.services.servers import instances
from conductor.services.servers.types import InstanceCreate, NetworkRequest
from tests.compute_rows import Cloud, make_cloud, make_host, make_image, make_instance
from tests.people import People
from tests.waiting import WAIT_SECONDS


@pytest.fixture
def cloud(people: People) -> Cloud:
    return make_cloud(people)


def requested(cloud: Cloud, **values: Any) -> InstanceCreate:
    return InstanceCreate(**({"name": "web", "flavor_ref": "1", "image_ref": str(cloud.image.uuid)} | values))


def written() -> list[int]:
    """Return the number of rows of each model that a launch writes."""
    models = (BuildRequest, InstanceMapping, RequestSpecRecord, WorkflowRun, ResourceLock, InstanceGroupMember, Event)
    return [model.objects.using("default").count() for model in models]


def test_a_launch_writes_everything_that_a_build_needs_in_one_transaction(cloud: Cloud) -> None:
    ana = cloud.people.ana.context()
    launched = instances.create(ana, requested(cloud, metadata={"role": "shop"}, tags=("blue",)))
    (instance_uuid,) = launched.instance_uuids
    request = BuildRequest.objects.get()
    assert str(request.instance_uuid) == instance_uuid
    assert request.instance["name"] == "web"
    assert request.instance["hostname"] == "web"
    assert request.instance["vm_state"] == "building"
    assert request.instance["task_state"] == "scheduling"
    assert request.instance["networks"] == [{"network_id": str(cloud.network.uuid), "port_id": "", "fixed_ip": ""}]
    assert request.instance["security_groups"] == ["default"]
    mapping = InstanceMapping.objects.get()
    assert (mapping.cell, mapping.vcpus, mapping.memory_mb) == (None, 1, 128)
    assert mapping.created_at == request.created_at
    spec = RequestSpec.from_json(RequestSpecRecord.objects.get().spec)
    assert (spec.num_instances, spec.flavor.name, spec.image.image_id) == (1, "tiny", str(cloud.image.uuid))
    run = WorkflowRun.objects.using("default").get()
    assert (run.flow, run.action, run.state) == ("build_instances", "create", RunState.QUEUED)
    assert str(run.uuid) == launched.run_uuid == str(mapping.build_run_uuid) == str(request.run_uuid)
    assert run.request_id == ana.request_id
    assert ResourceLock.objects.using("default").get().resource == f"instance:{instance_uuid}"
    kinds = list(Event.objects.using("default").order_by("pk").values_list("kind", flat=True))
    assert kinds == ["run.queued", "instance.created"]


def test_a_build_request_becomes_an_instance_without_loss(cloud: Cloud) -> None:
    from conductor.cell_db.models import Instance

    instances.create(cloud.people.ana.context(), requested(cloud, user_data="I2Nsb3Vk", config_drive=True))
    request = BuildRequest.objects.get()
    row = Instance(uuid=request.instance_uuid, **request.instance, created_at=request.created_at)
    row.updated_at = request.created_at
    row.save(using="cell1", force_insert=True)
    back = Instance.objects.using("cell1").get()
    assert {name: getattr(back, name) for name in request.instance} == request.instance


def test_several_servers_are_numbered_and_share_one_run(cloud: Cloud) -> None:
    launched = instances.create(cloud.people.ana.context(), requested(cloud, min_count=3, max_count=3))
    requests = {str(row.instance_uuid): row.instance for row in BuildRequest.objects.all()}
    named = [(requests[uuid]["name"], requests[uuid]["launch_index"]) for uuid in launched.instance_uuids]
    assert named == [("web-1", 0), ("web-2", 1), ("web-3", 2)]
    run = WorkflowRun.objects.using("default").get()
    assert run.inputs["instance_uuids"] == list(launched.instance_uuids)
    assert run.inputs["spec"]["num_instances"] == 3
    assert run.inputs["reservation_id"] == launched.reservation_id
    assert ResourceLock.objects.using("default").count() == 3


def test_quota_shrinks_the_count_towards_the_minimum(cloud: Cloud) -> None:
    ana = cloud.people.ana.context()
    Quota.objects.create(project_id=ana.project_id, resource="cores", limit=4)
    launched = instances.create(ana, requested(cloud, flavor_ref="3", min_count=1, max_count=5))  # two cores each
    assert len(launched.instance_uuids) == 2
    before = written()
    with pytest.raises(QuotaExceeded, match="Quota exceeded for cores: Requested 2, but already used 4 of 4 cores"):
        instances.create(ana, requested(cloud, flavor_ref="3"))
    assert written() == before


def test_a_deleted_instance_does_not_count_against_the_quota(cloud: Cloud) -> None:
    ana = cloud.people.ana.context()
    Quota.objects.create(project_id=ana.project_id, resource="instances", limit=1)
    instances.create(ana, requested(cloud))
    with pytest.raises(QuotaExceeded):
        instances.create(ana, requested(cloud))
    InstanceMapping.objects.update(is_deleted=True)
    assert len(instances.create(ana, requested(cloud)).instance_uuids) == 1


def test_racing_launches_never_exceed_the_quota(cloud: Cloud) -> None:
    ana = cloud.people.ana.context()
    Quota.objects.create(project_id=ana.project_id, resource="instances", limit=5)
    refused = []

    def launch() -> None:
        try:
            instances.create(ana, requested(cloud))
        except QuotaExceeded as error:
            refused.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=launch) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=WAIT_SECONDS)
    assert InstanceMapping.objects.count() == 5
    assert len(refused) == 7


def test_two_launches_with_the_same_run_uuid_launch_once(cloud: Cloud) -> None:
    ana = cloud.people.ana.context()
    named = requested(cloud, run_uuid=str(uuid.uuid4()))
    first = instances.create(ana, named)
    before = written()
    assert instances.create(cloud.people.ana.context(), named) == first
    with pytest.raises(Conflict):
        instances.create(cloud.people.chi.context(), named)
    assert written() == before
    assert first.run_uuid == named.run_uuid


def test_of_two_launches_with_one_port_the_second_is_refused(cloud: Cloud) -> None:
    ana = cloud.people.ana.context()
    from conductor.network import port_operations

    port = port_operations.create_port(ana, port_operations.PortCreate(network_id=str(cloud.network.uuid)))
    with_port = requested(cloud, networks=(NetworkRequest(port_id=str(port.uuid)),))
    instances.create(ana, with_port)
    before = written()
    with pytest.raises(ResourceLocked, match=f"port:{port.uuid} is locked by workflow"):
        instances.create(ana, with_port)
    assert written() == before
    assert Port.objects.get().device_id == ""


def unknown() -> str:
    return str(uuid.uuid4())


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"flavor_ref": "nope"}, "Flavor nope could not be found."),
    ({"image_ref": ""}, "Name an image to boot from, or a volume"),
    ({"image_ref": "11111111-1111-1111-1111-111111111111"}, "Can not find requested image 11111111"),
    ({"key_name": "lost"}, "Invalid key_name provided."),
    ({"availability_zone": "atlantis"}, "The requested availability zone is not available"),
    ({"networks": (NetworkRequest(network_id="22222222-2222-2222-2222-222222222222"),)}, "22222222"),
    ({"scheduler_hints": {"group": ["33333333-3333-3333-3333-333333333333"]}}, "Instance group 33333333"),
    ({"scheduler_hints": {"same_host": ["44444444-4444-4444-4444-444444444444"]}}, "Instance 44444444"),
    ({"scheduler_hints": {"different_host": ["not-a-uuid"]}}, "Instance not-a-uuid could not be found"),
    ({"security_groups": ("absent",)}, "Security group absent"),
    ({"name": "n" * 254, "max_count": 2}, "too long to be numbered up to 2"),
    ({"hostname": "db", "min_count": 1, "max_count": 2}, "cannot share one hostname"),
]


@pytest.mark.parametrize(("values", "message"), REFUSED)
def test_missing_resources_of_a_launch_are_named_and_nothing_is_written(
    values: dict[str, Any], message: str, cloud: Cloud
) -> None:
    before = written()
    with pytest.raises(Invalid, match=message):
        instances.create(cloud.people.ana.context(), requested(cloud, **values))
    assert written() == before == [0] * 7


def test_an_image_must_fit_the_flavor(cloud: Cloud) -> None:
    ana = cloud.people.ana.context()
    hungry = make_image(cloud.people, "hungry", min_ram_mb=129)
    wide = make_image(cloud.people, "wide", size=2**30 + 1)
    queued = make_image(cloud.people, "queued", status="queued")
    kernel = make_image(cloud.people, "kernel", container_format="aki")
    private = make_image(cloud.people, "private", visibility="private")
    for image, message in [
        (hungry, "tiny has 128 MB, the image needs 129 MB"),
        (wide, "tiny has 1 GB, the image needs 2 GB"),
        (queued, "is not active"),
        (kernel, "is a kernel or ramdisk"),
        (private, "Can not find requested image"),
    ]:
        with pytest.raises(Invalid, match=message):
            instances.create(ana, requested(cloud, image_ref=str(image.uuid)))
    assert written() == [0] * 7


def test_only_an_administrator_names_a_host(cloud: Cloud) -> None:
    make_host("cell1", "sim-1-01")
    with pytest.raises(Forbidden):
        instances.create(cloud.people.ana.context(), requested(cloud, requested_host="sim-1-01"))
    with pytest.raises(Invalid, match="Compute host nowhere could not be found"):
        instances.create(cloud.people.admin.context(), requested(cloud, requested_host="nowhere"))
    assert written() == [0] * 7
    instances.create(cloud.people.admin.context(), requested(cloud, requested_host="sim-1-01"))
    assert RequestSpecRecord.objects.get().spec["requested_host"] == "sim-1-01"


def test_a_launch_stores_the_key_and_only_its_owner_can_use_it(cloud: Cloud) -> None:
    KeyPair.objects.create(
        user_id=cloud.people.ana.user.id, name="laptop", public_key="ssh-ed25519 AAAA", created_at=database_now()
    )
    with pytest.raises(Invalid):
        instances.create(cloud.people.bo.context(), requested(cloud, key_name="laptop"))
    instances.create(cloud.people.ana.context(), requested(cloud, key_name="laptop"))
    values = BuildRequest.objects.get().instance
    assert (values["key_name"], values["public_key"]) == ("laptop", "ssh-ed25519 AAAA")


def test_the_hosts_of_instances_in_hints_are_stored(cloud: Cloud) -> None:
    ana = cloud.people.ana.context()
    near = make_instance(ana, "cell1", "near", host="sim-1-01")
    foreign = make_instance(cloud.people.chi.context(), "cell1", "foreign", host="sim-1-02")
    with pytest.raises(Invalid, match=str(foreign.uuid)):
        instances.create(ana, requested(cloud, scheduler_hints={"same_host": [str(foreign.uuid)]}))
    instances.create(ana, requested(cloud, scheduler_hints={"same_host": [str(near.uuid)]}))
    assert RequestSpecRecord.objects.get().spec["instance_hosts"] == {str(near.uuid): "sim-1-01"}


def test_a_group_takes_members_up_to_its_limit(cloud: Cloud) -> None:
    ana = cloud.people.ana.context()
    group = InstanceGroup.objects.create(
        project_id=ana.project_id, user_id=ana.user_id, name="apart", policy="anti-affinity"
    )
    Quota.objects.create(project_id=ana.project_id, resource="server_group_members", limit=2)
    hints = {"group": [str(group.uuid)]}
    launched = instances.create(ana, requested(cloud, min_count=2, max_count=2, scheduler_hints=hints))
    members = InstanceGroupMember.objects.order_by("pk").values_list("instance_uuid", "host")
    assert [(str(member), host) for member, host in members] == [(uuid, "") for uuid in launched.instance_uuids]
    before = written()
    with pytest.raises(QuotaExceeded, match="too many server group members: 2 of 2"):
        instances.create(ana, requested(cloud, scheduler_hints=hints))
    assert written() == before
    with pytest.raises(Invalid, match="Instance group"):
        instances.create(cloud.people.chi.context(), requested(cloud, scheduler_hints=hints))


def test_security_groups_go_by_id_or_name_and_without_networks_there_are_none(cloud: Cloud) -> None:
    ana = cloud.people.ana.context()
    now = {"created_at": database_now(), "updated_at": database_now()}
    web = SecurityGroup.objects.create(name="web", project_id=ana.project_id, **now)
    instances.create(ana, requested(cloud, security_groups=(str(web.uuid), "web", "default")))
    assert BuildRequest.objects.get().instance["security_groups"] == ["web", "default"]
    BuildRequest.objects.all().delete()
    instances.create(ana, requested(cloud, networks=()))
    assert BuildRequest.objects.get().instance["security_groups"] == []


@pytest.mark.parametrize(
    ("name", "hostname"),
    [
        ("web", "web"),
        ("Web Shop_2.0", "web-shop-2-0"),
        ("--ünïcode--", "ncode"),
        ("x" * 80, "x" * 63),
        ("日本", "server-"),
    ],
)
def test_hostnames_are_made_of_names(name: str, hostname: str, cloud: Cloud) -> None:
    instances.create(cloud.people.ana.context(), requested(cloud, name=name))
    row = BuildRequest.objects.get()
    expected = f"server-{row.instance_uuid}" if hostname == "server-" else hostname
    assert row.instance["hostname"] == expected


def test_a_zone_of_another_cell_is_found_too(cloud: Cloud) -> None:
    make_host("cell2", "sim-2-01", zone="az-2")
    assert HostMapping.objects.get().cell.name == "cell2"
    query = replace(requested(cloud), availability_zone="az-2")
    instances.create(cloud.people.ana.context(), query)
    assert BuildRequest.objects.get().instance["pinned_availability_zone"] == "az-2"
