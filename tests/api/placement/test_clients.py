"""Placement through its real clients: the commands of `openstack`, and the SDK."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import openstack
import pytest
from openstack.connection import Connection

from tests.openstack_command import OpenStackCommand
from tests.people import PASSWORD

SHED, SHELF, HOLDER = (f"{digit}" * 8 + f"-{digit * 4}-4{digit * 3}-8{digit * 3}-" + digit * 12 for digit in "123")
RACK = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
Cli = Callable[..., Any]


@pytest.fixture
def sign_in(url: str) -> dict[str, str]:
    person = {"username": "admin", "project_name": "admin", "password": PASSWORD}
    return {"auth_url": f"{url}/identity", "user_domain_name": "Default", "project_domain_name": "Default", **person}


@pytest.fixture(scope="module")
def command() -> Iterator[OpenStackCommand]:
    started = OpenStackCommand()
    yield started
    started.close()


@pytest.fixture
def cli(sign_in: dict[str, str], command: OpenStackCommand) -> Cli:
    """Runs command lines in turn, at the newest version; returns each output, parsed if it is JSON."""
    signed_in = {f"OS_{name.upper()}": value for name, value in sign_in.items()}

    def run(*lines: str, fails: bool = False, version: str = "1.39") -> Any:
        answers = []
        for line in lines:
            code, out, err = command.run(["--os-placement-api-version", version, *line.split()], signed_in)
            assert (code != 0) == fails, f"openstack {line}\n{out}\n{err}"
            answers.append(json.loads(out) if out.startswith(("[", "{")) else out + err)
        return answers

    return run


@pytest.fixture
def cloud(sign_in: dict[str, str]) -> Iterator[Connection]:
    connection = openstack.connect(
        auth=sign_in, region_name="RegionOne", placement_default_microversion="1.39", load_envvars=False
    )
    yield connection
    connection.close()


def test_commands_build_a_tree_and_find_candidates_in_it(cli: Cli) -> None:
    answers = cli(
        f"resource provider create shed --uuid {SHED} -f json",
        f"resource provider create shelf --uuid {SHELF} --parent-provider {SHED} -f json",
        "resource class create CUSTOM_BOX",
        "resource class show CUSTOM_BOX -f json",
        "trait create CUSTOM_DRY",
        "trait list --name startswith:CUSTOM -f json",
        f"resource provider inventory set {SHED} --resource VCPU=8 --resource VCPU:allocation_ratio=2.0 -f json",
        f"resource provider inventory set {SHELF} --resource CUSTOM_BOX=4 -f json",
        f"resource provider trait set {SHELF} --trait CUSTOM_DRY -f json",
        f"resource provider aggregate set {SHED} --generation 1 --aggregate {RACK} -f json",
        f"resource provider list --in-tree {SHELF} -f json",
        f"resource provider list --member-of {RACK} -f json",
        "resource provider list --required CUSTOM_DRY --resource CUSTOM_BOX=4 -f json",
        "allocation candidate list --resource VCPU=16 --group 1 --resource CUSTOM_BOX=4 --required CUSTOM_DRY -f json",
    )
    assert (answers[0]["name"], answers[1]["parent_provider_uuid"]) == ("shed", SHED)
    assert answers[3]["name"] == "CUSTOM_BOX"
    assert answers[5] == [{"name": "CUSTOM_DRY"}]
    assert answers[6][0] | {"resource_class": "VCPU", "total": 8, "allocation_ratio": 2.0} == answers[6][0]
    assert answers[9] == [{"uuid": RACK}]
    assert [row["name"] for row in answers[10]] == ["shed", "shelf"]
    assert [row["name"] for row in answers[11]] == ["shed"]
    assert [row["name"] for row in answers[12]] == ["shelf"]
    found = {row["resource provider"]: row["allocation"] for row in answers[13]}
    assert found == {SHED: "VCPU=16", SHELF: "CUSTOM_BOX=4"}


def test_commands_create_show_and_delete_allocations(cli: Cli, people: Any) -> None:
    project, user = people.ana.project.id, people.ana.user.id
    owner = f"--project-id {project} --user-id {user} --consumer-type INSTANCE"
    answers = cli(
        f"resource provider create shed --uuid {SHED} -f json",
        f"resource provider inventory set {SHED} --resource VCPU=8 --resource DISK_GB=100 -f json",
        f"resource provider allocation set {HOLDER} --allocation rp={SHED},VCPU=2,DISK_GB=10 {owner} -f json",
        f"resource provider allocation show {HOLDER} -f json",
        f"resource provider usage show {SHED} -f json",
        f"resource provider inventory class set {SHED} VCPU --total 16 -f json",
        f"resource provider allocation unset {HOLDER} --resource-class DISK_GB -f json",
    )
    assert answers[3][0]["resources"] == {"VCPU": 2, "DISK_GB": 10}
    assert {row["resource_class"]: row["usage"] for row in answers[4]} == {"VCPU": 2, "DISK_GB": 10}
    assert answers[5]["total"] == 16
    assert answers[6][0]["resources"] == {"VCPU": 2}
    assert cli(f"resource usage show {project} --user-id {user} -f json", version="1.37") == [
        [{"resource_class": "VCPU", "usage": 2}]
    ]
    refused = cli(f"resource provider delete {SHED}", f"resource provider inventory delete {SHED}", fails=True)
    assert all("409" in text for text in refused)
    cli(
        f"resource provider allocation delete {HOLDER}",
        f"resource provider inventory delete {SHED}",
        f"resource provider delete {SHED}",
    )
    assert cli("resource provider list -f json") == [[]]


def test_commands_at_the_oldest_version(cli: Cli) -> None:
    answers = cli(
        f"resource provider create shed --uuid {SHED} -f json",
        f"resource provider inventory set {SHED} --resource VCPU=8 -f json",
        f"resource provider allocation set {HOLDER} --allocation rp={SHED},VCPU=2 -f json",
        f"resource provider show {SHED} --allocations -f json",
        version="1.0",
    )
    assert answers[3]["allocations"][HOLDER]["resources"] == {"VCPU": 2}


def test_the_sdk_finds_placement_and_its_versions(cloud: Connection) -> None:
    data = cloud.placement.get_endpoint_data()
    assert data.url.rstrip("/").endswith("/placement")
    assert (data.min_microversion, data.max_microversion) == ((1, 0), (1, 39))


def test_the_sdk_writes_and_reads(cloud: Connection) -> None:
    placement = cloud.placement
    shed = placement.create_resource_provider(id=SHED, name="shed")
    assert (shed.id, shed.generation, shed.root_provider_id) == (SHED, 0, SHED)
    assert placement.find_resource_provider("shed").id == SHED
    placement.create_resource_class(name="CUSTOM_BOX")
    assert "CUSTOM_BOX" in {item.name for item in placement.resource_classes()}
    placement.create_trait("CUSTOM_DRY")
    assert [trait.id for trait in placement.traits(name="startswith:CUSTOM")] == ["CUSTOM_DRY"]
    made = placement.create_resource_provider_inventory(SHED, "VCPU", total=8)
    assert made.total == 8
    changed = placement.update_resource_provider_inventory("VCPU", SHED, total=16, resource_provider_generation=1)
    assert (changed.total, changed.resource_provider_generation) == (16, 2)
    assert [item.resource_class for item in placement.resource_provider_inventories(SHED)] == ["VCPU"]
    filled = placement.set_resource_provider_aggregates(placement.get_resource_provider(SHED), RACK)
    assert filled.aggregates == [RACK]
    placement.delete_resource_provider_inventory("VCPU", SHED)
    placement.delete_resource_provider(SHED)
    assert list(placement.resource_providers()) == []
