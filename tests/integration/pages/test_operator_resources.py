"""Operators' resource pages: aggregates, flavors, services, people and their rights; each change is on record."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connections
from django.test import Client

from conductor import row_limits
from conductor.api_db.models import Aggregate, Flavor, FlavorAccess, Quota, UserQuota
from conductor.cell_db.models import Service
from conductor.core.extra_spec_operators import fault_of
from conductor.identity.models import Group, GroupMembership, Project, Role, RoleAssignment, User
from conductor.image.models import Image
from conductor.journal.models import AuditRecord
from conductor.network import quotas as network_quotas
from conductor.services.servers import extra_specs, flavors
from portal.pages.images.flavors import SPECS
from portal.pages.policies import RULES
from portal.pages.projects.limits import NAMES, PROJECT_QUOTAS
from portal.pages.resource_pages.catalog import RESOURCES
from portal.pages.resources.fields import pairs_fault, pairs_of, pairs_text
from tests import factories
from tests.api_client import ApiClient
from tests.counting import Captured
from tests.integration.page_clients import signed_in, text

OPERATORS = tuple(one for one in RESOURCES if one.is_for_operators)
WHY = "ticket 7: asked by the owner"
UNKNOWN_UUID = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def admin(people: Any) -> Client:
    factories.cells()
    flavors.seed()
    return signed_in("admin")


def kept(action: str) -> AuditRecord:
    return AuditRecord.objects.using("default").get(action=action)


@pytest.mark.parametrize("resource", OPERATORS, ids=lambda one: one.id)
def test_every_kind_has_its_pages_for_administrators_alone(admin: Client, resource: Any) -> None:
    ana = signed_in("ana")
    page = admin.get(f"/{resource.id}")
    assert page.status_code == 200
    assert f"<h1>{resource.title}</h1>" in page.content.decode()
    assert not re.search(r"\sstyle=|<style|\son[a-z]+=|javascript:", page.content.decode())
    for action in resource.actions:
        assert action.rule in RULES[action.service or resource.service]
        path = f"/{resource.id}/do/{action.id}"
        assert admin.get(path).status_code == (200 if action.is_creation else 302)
        assert ana.get(path).status_code == 404
        assert ana.post(path, {"name": "x", "item": UNKNOWN_UUID}).status_code == 404
    assert admin.get(f"/{resource.id}/of/{UNKNOWN_UUID}").status_code in (400, 404)  # aggregates have numbers
    for path in (f"/{resource.id}", f"/{resource.id}/of/{UNKNOWN_UUID}"):
        assert ana.get(path).status_code == 404
    assert f'href="/{resource.id}"' in admin.get("/").content.decode()
    assert f'href="/{resource.id}"' not in ana.get("/").content.decode()


def test_an_aggregate_is_created_changed_and_deleted_by_forms(admin: Client) -> None:
    factories.host("sim-1")
    answer = admin.post("/aggregates/do/create", {"name": "fast disks", "availability_zone": "west"})
    row = Aggregate.objects.get()
    number = answer["Location"].rpartition("/")[2]
    assert row.metadata == {"availability_zone": "west"}
    assert "sim-1" in text(admin.get("/aggregates/do/add-host", {"item": number}))
    assert admin.post("/aggregates/do/add-host", {"item": number, "host": "sim-1"}).status_code == 302
    sent = {"item": number, "metadata": "availability_zone = west\nssd = true\n"}
    assert admin.post("/aggregates/do/metadata", sent).status_code == 302
    page = text(admin.get(f"/aggregates/of/{number}"))
    assert "ssd = true" in page
    assert "Remove all hosts first." in page
    assert admin.post("/aggregates/do/delete", {"item": number, "reason": WHY}).status_code == 409
    assert Aggregate.objects.exists()
    refused = admin.post("/aggregates/do/remove-host", {"item": number, "host": "sim-1", "reason": " "})
    assert refused.status_code == 400
    assert "Reason is required." in text(refused)
    assert admin.post("/aggregates/do/remove-host", {"item": number, "host": "sim-1", "reason": WHY}).status_code == 302
    sent["metadata"] = "availability_zone = west"
    admin.post("/aggregates/do/metadata", sent)
    row.refresh_from_db()
    assert row.metadata == {"availability_zone": "west"}
    assert admin.post("/aggregates/do/delete", {"item": number, "reason": WHY})["Location"] == "/aggregates"
    assert not Aggregate.objects.exists()
    assert kept("aggregate.remove_host").reason == WHY
    assert kept("aggregate.create").details["sent"]["aggregate"]["name"] == "fast disks"


def test_lines_that_are_no_pairs_are_refused_at_their_field(admin: Client) -> None:
    admin.post("/aggregates/do/create", {"name": "racks", "availability_zone": ""})
    number = text(admin.get("/aggregates")).partition("/aggregates/of/")[2].partition('"')[0]
    answer = admin.post("/aggregates/do/metadata", {"item": number, "metadata": "ssd true"})
    assert answer.status_code == 400
    assert "Enter key = value on each line, not “ssd true”." in text(answer)
    assert Aggregate.objects.get().metadata == {}
    assert pairs_fault("a = 1\na = 2") == "a is listed twice."
    assert pairs_of(pairs_text({"b": "2", "a": "x = y"})) == {"a": "x = y", "b": "2"}


def test_a_flavor_is_created_changed_and_deleted_by_forms(admin: Client, people: Any) -> None:
    sent = {"name": "huge", "vcpus": "8", "ram": "16384", "disk": "100", "ephemeral": "0", "swap": "0", "id": "h1"}
    assert admin.post("/flavors/do/create", sent)["Location"] == "/flavors/of/h1"
    row = Flavor.objects.get(flavor_id="h1")
    assert not row.is_public
    lab = people.chi.project
    assert "huge" not in text(signed_in("chi").get("/flavors"))
    assert "huge" in text(admin.get("/flavors"))
    assert admin.post("/flavors/do/grant", {"item": "h1", "tenant": lab.id}).status_code == 302
    assert "huge" in text(signed_in("chi").get("/flavors"))
    assert "lab" in text(admin.get("/flavors/of/h1"))
    refused = admin.post("/flavors/do/specs", {"item": "h1", "extra_specs": "hw:cpu_policy = sometimes"})
    assert refused.status_code == 400
    assert "hw:cpu_policy" in text(refused)
    admin.post("/flavors/do/specs", {"item": "h1", "extra_specs": "hw:cpu_policy = dedicated\nhw:numa_nodes = 2"})
    admin.post("/flavors/do/specs", {"item": "h1", "extra_specs": "hw:numa_nodes = 1"})
    row.refresh_from_db()
    assert row.extra_specs == {"hw:numa_nodes": "1"}
    assert admin.post("/flavors/do/revoke", {"item": "h1", "tenant": lab.id, "reason": WHY}).status_code == 302
    assert not FlavorAccess.objects.exists()
    assert kept("flavor.removeTenantAccess").reason == WHY
    assert admin.post("/flavors/do/delete", {"item": "h1", "reason": WHY}).status_code == 302
    assert not Flavor.objects.filter(flavor_id="h1").exists()


def test_tenants_see_flavors_and_change_none(admin: Client) -> None:
    ana = signed_in("ana")
    page = text(ana.get("/flavors/of/2"))
    assert "/flavors/do/" not in page
    assert ana.post("/flavors/do/delete", {"item": "2", "reason": WHY}).status_code == 403
    assert Flavor.objects.filter(flavor_id="2").exists()
    record = kept("flavor.delete")
    assert (record.result, record.user_name, record.reason) == ("refused", "ana", WHY)


def test_every_known_key_of_flavors_is_one_that_the_api_takes() -> None:
    for line, words in SPECS:
        assert words.endswith(".")
        ((key, value),) = pairs_of(line).items()
        extra_specs.check({key: value})
        assert not fault_of(value)


def test_services_are_closed_with_a_reason_and_forgotten_when_they_are_gone(admin: Client) -> None:
    factories.host("sim-1")
    factories.host("sim-2", "cell2", seen=900)
    page = text(admin.get("/services"))
    assert "2 total, 1 down, 0 disabled" in page
    up, down = (Service.objects.using(cell).get() for cell in ("cell1", "cell2"))
    assert "The service is up. Stop it first." in text(admin.get(f"/services/of/{up.uuid}"))
    assert admin.post("/services/do/disable", {"item": str(up.uuid)}).status_code == 400
    assert admin.post("/services/do/disable", {"item": str(up.uuid), "reason": WHY}).status_code == 302
    up.refresh_from_db()
    assert (up.is_disabled, up.disabled_reason) == (True, WHY)
    assert WHY in text(admin.get("/services"))
    assert admin.post("/services/do/disable", {"item": str(up.uuid), "reason": WHY}).status_code == 409
    assert admin.post("/services/do/enable", {"item": str(up.uuid)}).status_code == 302
    assert admin.post("/services/do/forget", {"item": str(up.uuid), "reason": WHY}).status_code == 409
    assert admin.post("/services/do/forget", {"item": str(down.uuid), "reason": WHY})["Location"] == "/services"
    assert not Service.objects.using("cell2").exists()
    assert kept("service.delete").reason == WHY
    assert "No services match this filter." in text(admin.get("/services", {"q": "nothing"}))


def test_a_user_is_created_changed_and_deleted_by_forms(admin: Client, people: Any) -> None:
    sent = {"name": "dan", "password": "eight-geese-fly", "email": "dan@shop.example", "description": ""}
    answer = admin.post("/users/do/create", {**sent, "default_project_id": people.ana.project.id})
    dan = User.objects.get(username="dan")
    assert answer["Location"] == f"/users/of/{dan.id}"
    role = people.ana.role
    given = {"user_id": dan.id, "role_id": role.id, "project_id": people.ana.project.id}
    assert admin.post("/role-assignments/do/create", given).status_code == 302
    assert RoleAssignment.objects.filter(user=dan, role=role, project=people.ana.project).exists()
    assert "member for dan on shop" in text(admin.get(f"/users/of/{dan.id}"))
    client = Client()
    assert client.post("/sign-in", {"username": "dan", "password": "eight-geese-fly"}).status_code == 302
    assert client.get("/servers").status_code == 200
    assert (
        admin.post("/users/do/password", {"item": dan.id, "password": "nine-swans-rest", "reason": WHY}).status_code
        == 302
    )
    assert client.get("/servers").status_code == 302
    assert admin.post("/users/do/disable", {"item": dan.id, "reason": ""}).status_code == 400
    assert admin.post("/users/do/disable", {"item": dan.id, "reason": WHY}).status_code == 302
    dan.refresh_from_db()
    assert not dan.is_active
    assert "The user is already disabled." in text(admin.get(f"/users/of/{dan.id}"))
    assert admin.post("/users/do/enable", {"item": dan.id}).status_code == 302
    records = AuditRecord.objects.using("default").filter(action__startswith="user.").order_by("created_at")
    message = str([record.details for record in records])
    assert "geese" not in message
    assert "swans" not in message
    assert [record.action for record in records] == ["user.create", "user.update", "user.update", "user.update"]
    assert [record.reason for record in records] == ["", WHY, WHY, ""]
    assert admin.post("/users/do/delete", {"item": dan.id, "reason": WHY})["Location"] == "/users"
    assert not User.objects.filter(username="dan").exists()


def test_a_role_is_taken_away_with_a_reason(admin: Client, people: Any) -> None:
    page = admin.get("/role-assignments", {"q": "bo on"}).content.decode()
    ident = re.search(r'name="item" value="([^"]+)"', page)
    assert ident is not None
    page = text(admin.get(f"/role-assignments/of/{ident[1]}"))
    assert "member for bo on shop" in page
    assert "openstack role remove" in text(admin.get("/role-assignments/do/remove", {"item": ident[1]}))
    assert admin.post("/role-assignments/do/remove", {"item": ident[1]}).status_code == 400
    assert RoleAssignment.objects.filter(user=people.bo.user).exists()
    assert admin.post("/role-assignments/do/remove", {"item": ident[1], "reason": WHY}).status_code == 302
    assert not RoleAssignment.objects.filter(user=people.bo.user).exists()
    record = kept("role.revoke")
    assert record.reason == WHY
    assert people.bo.user.id in record.details["path"]


def test_removing_the_callers_own_role_asks_for_their_name(admin: Client, people: Any) -> None:
    page = admin.get("/role-assignments", {"q": "admin on"}).content.decode()
    ident = re.search(r'name="item" value="([^"]+)"', page)
    assert ident is not None
    sent = {"item": ident[1], "reason": WHY}
    assert "may not be able to restore it" in text(admin.get("/role-assignments/do/remove", sent))
    for typed, reported in (("", "Your user name is required."), ("chi", "Type admin to confirm.")):
        answer = admin.post("/role-assignments/do/remove", {**sent, "confirm": typed})
        assert (answer.status_code, reported in text(answer)) == (400, True)
    assert RoleAssignment.objects.filter(user=people.admin.user).exists()
    before = RoleAssignment.objects.filter(user=people.admin.user).count()
    assert admin.post("/role-assignments/do/remove", {**sent, "confirm": "admin"}).status_code == 302
    assert RoleAssignment.objects.filter(user=people.admin.user).count() == before - 1


def test_removing_a_role_of_the_callers_group_asks_for_the_callers_name(admin: Client, people: Any) -> None:
    group = Group.objects.create(name="operators", domain=people.admin.user.domain)
    RoleAssignment.objects.create(group=group, role=people.admin.role, project=people.admin.project)
    page = admin.get("/role-assignments", {"q": "group operators"}).content.decode()
    ident = re.search(r'name="item" value="([^"]+)"', page)
    assert ident is not None
    sent = {"item": ident[1], "reason": WHY}
    assert "may not be able" not in text(admin.get("/role-assignments/do/remove", sent)), "it is a group of others"
    GroupMembership.objects.create(group=group, user=people.admin.user)
    assert "may not be able to restore it" in text(admin.get("/role-assignments/do/remove", sent))
    assert admin.post("/role-assignments/do/remove", sent).status_code == 400
    assert admin.post("/role-assignments/do/remove", {**sent, "confirm": "admin"}).status_code == 302
    assert not RoleAssignment.objects.filter(group=group).exists()


def test_projects_and_roles_live_through_their_forms(admin: Client, people: Any) -> None:
    made = admin.post("/projects/do/create", {"name": "annex", "description": "d", "parent_id": people.ana.project.id})
    row = Project.objects.get(name="annex")
    assert made["Location"] == f"/projects/of/{row.id}"
    assert "shop" in text(admin.get(f"/projects/of/{row.id}"))
    assert admin.post("/projects/do/disable", {"item": row.id, "reason": WHY}).status_code == 302
    row.refresh_from_db()
    assert not row.is_enabled
    assert re.findall(r"data-drawer>([a-z]+)<", text(admin.get("/projects", {"enabled": "false"}))) == ["annex"]
    assert admin.post("/projects/do/enable", {"item": row.id}).status_code == 302
    assert admin.post("/projects/do/delete", {"item": row.id, "reason": WHY}).status_code == 302
    assert not Project.objects.filter(name="annex").exists()
    admin.post("/roles/do/create", {"name": "auditor", "description": "reads the books"})
    mine = Role.objects.get(name="auditor")
    built_in = Role.objects.get(name="member")
    assert "Policies use this role. It can't be changed." in text(admin.get(f"/roles/of/{built_in.id}"))
    assert admin.post("/roles/do/delete", {"item": built_in.id, "reason": WHY}).status_code == 409
    assert admin.post("/roles/do/delete", {"item": mine.id, "reason": WHY}).status_code == 302
    assert set(Role.objects.filter(name__in=("auditor", "member")).values_list("name", flat=True)) == {"member"}


def test_an_image_is_deactivated_for_all_users_and_reactivated(admin: Client, people: Any) -> None:
    row = factories.image("linux", people.ana.context())
    assert admin.post("/images/do/deactivate", {"item": str(row.uuid), "reason": WHY}).status_code == 302
    assert Image.objects.get().status == "deactivated"
    assert kept("image.deactivate").reason == WHY
    assert "deactivated" in text(admin.get(f"/images/of/{row.uuid}"))
    assert admin.post("/images/do/reactivate", {"item": str(row.uuid)}).status_code == 302
    assert Image.objects.get().status == "active"


def test_limits_are_set_for_a_project_and_one_of_its_users_and_taken_back(admin: Client, people: Any) -> None:
    shop, ana = people.ana.project.id, people.ana
    factories.instance(ana.context(), "web-1")
    page = text(admin.get("/project-quotas", {"q": "shop"}))
    assert "Servers: 1 / 100" in page
    assert "lab" not in re.findall(r"data-open>([a-z]+)<", page)
    form = text(admin.get("/project-quotas/do/compute", {"item": shop}))
    assert 'value="100"' in form
    low = {"item": shop, "instances": "0", "reason": WHY}
    answer = admin.post("/project-quotas/do/compute", low)
    assert answer.status_code == 400
    assert 'id="field-instances" data-wrong' in text(answer)
    assert not Quota.objects.exists()
    assert admin.post("/project-quotas/do/compute", {**low, "force": "yes"}).status_code == 302
    assert dict(Quota.objects.values_list("resource", "limit")) == {"instances": 0}
    assert "custom limits" in text(admin.get("/project-quotas"))
    admin.post("/project-quotas/do/compute", {"item": shop, "instances": "50", "cores": "-1", "reason": WHY})
    admin.post("/project-quotas/do/storage", {"item": shop, "volumes": "7", "reason": WHY})
    admin.post("/project-quotas/do/network", {"item": shop, "router": "3", "reason": WHY})
    admin.post("/project-quotas/do/rows", {"item": shop, "address_scopes": "77", "reason": WHY})
    sent = {"item": shop, "user_id": ana.user.id, "instances": "2", "reason": WHY}
    assert admin.post("/project-quotas/do/user", sent).status_code == 302
    assert UserQuota.objects.get().limit == 2
    page = text(admin.get(f"/project-quotas/of/{shop}"))
    assert "1 / 50" in page
    assert "0 / 3" in page
    assert "1 / ∞" in page
    assert "0 / 77" in page
    assert admin.post("/project-quotas/do/reset", {"item": shop, "reason": WHY}).status_code == 302
    assert not UserQuota.objects.exists()
    assert not Quota.objects.filter(project_id=shop).exists()
    assert "0 / 3" not in text(admin.get(f"/project-quotas/of/{shop}"))
    assert {one.reason for one in AuditRecord.objects.using("default").filter(action="quota.reset")} == {WHY}


def test_limits_of_a_project_are_those_that_the_apis_show(people: Any) -> None:
    factories.cells()
    factories.instance(people.ana.context(), "web-1")
    factories.network("private", people.ana.context())
    shop, client = people.ana.project.id, ApiClient(people.admin.token())
    more = {one.name: one for one in PROJECT_QUOTAS.more}
    for name, path, key, used in (
        ("compute", f"/compute/v2.1/os-quota-sets/{shop}/detail", "quota_set", "in_use"),
        ("storage", f"/volume/v3/os-quota-sets/{shop}?usage=true", "quota_set", "in_use"),
        ("network", f"/network/v2.0/quotas/{shop}/details", "quota", "used"),
        ("rows", f"/api/quotas/{shop}", "quotas", "in_use"),
    ):
        read = more[name].read
        assert read is not None
        limits = read(people.admin.context(), shop)
        shown = client.get(path).json()[key]
        assert NAMES[name].keys() <= shown.keys() - {"id"} <= limits.keys(), name
        for resource in NAMES[name]:
            one = limits[resource]
            assert (one.limit, one.in_use) == (shown[resource]["limit"], shown[resource][used]), resource
    defaults = client.get(f"/network/v2.0/quotas/{shop}/default").json()["quota"]
    read = more["network_defaults"].read
    assert read is not None
    assert read(people.admin.context(), shop) == defaults


def test_default_limits_apply_to_projects_without_limits_of_their_own(admin: Client, people: Any) -> None:
    assert admin.post("/project-quotas/do/defaults", {"instances": "9", "reason": WHY})["Location"] == "/project-quotas"
    assert admin.post("/project-quotas/do/storage-defaults", {"volumes": "8", "reason": WHY}).status_code == 302
    assert admin.post("/project-quotas/do/network-defaults", {"port": "7", "reason": WHY}).status_code == 302
    assert admin.post("/project-quotas/do/row-defaults", {"trusts": "5", "reason": WHY}).status_code == 302
    assert row_limits.defaults()["trusts"] == 5
    assert network_quotas.limits(people.ana.project.id)["port"] == 7
    page = text(admin.get("/project-quotas"))
    assert "Servers 9," in page
    assert "Servers: 0 / 9" in page
    assert "Volumes: 0 / 8" in page


def queries(client: Client, path: str) -> int:
    with Captured(connections["default"]) as seen:
        assert client.get(path).status_code == 200
    return len(seen)


@pytest.mark.parametrize(
    "path", ["/users", "/projects", "/role-assignments", "/aggregates", "/services", "/project-quotas"]
)
def test_more_rows_cost_no_more_queries(admin: Client, people: Any, path: str) -> None:
    factories.host("sim-1")
    Aggregate.objects.create(name="a")
    few = [queries(admin, path) for _ in range(2)][1]
    for number in range(5):
        project = Project.objects.create(domain=people.ana.project.domain, name=f"more-{number}")
        user = User.objects.create(
            domain=people.ana.user.domain, username=f"more-{number}", default_project_id=project.id
        )
        RoleAssignment.objects.create(user=user, project=project, role=people.ana.role)
        Aggregate.objects.create(name=f"more-{number}")
        factories.host(f"more-{number}")
    assert queries(admin, path) == few
