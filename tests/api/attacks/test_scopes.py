"""Attacks with the role `admin` on a domain or on an ordinary project: neither reaches the cloud."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conductor.identity.models import Domain, Project, RoleAssignment, User
from tests.api.attacks.scopes import IDENTITY, client_for, give, home_of, role_id, statuses, user, with_role
from tests.api_client import ApiClient
from tests.compute_rows import make_cloud, make_host, make_instance
from tests.people import People

FLAVOR = {"flavor": {"name": "x", "ram": 1, "vcpus": 1, "disk": 1}}
CLOUD = (
    ("GET", "/compute/v2.1/os-hypervisors"),
    ("GET", "/compute/v2.1/os-services"),
    ("GET", "/compute/v2.1/os-simple-tenant-usage"),
    ("POST", "/compute/v2.1/flavors", FLAVOR),
    ("GET", "/volume/v3/scheduler-stats/get_pools"),
    ("GET", "/network/v2.0/quotas"),
    ("GET", "/image/v2/tasks"),
    ("GET", "/placement/resource_providers"),
    ("GET", "/api/hosts"),
    ("GET", "/api/cells"),
    ("GET", "/api/audit/seals"),
    ("POST", f"{IDENTITY}/domains", {"domain": {"name": "x"}}),
    ("POST", f"{IDENTITY}/roles", {"role": {"name": "x"}}),
    ("GET", f"{IDENTITY}/users"),
    ("GET", f"{IDENTITY}/services"),
)
PAGES = ("/hosts", "/fleet", "/cells", "/plugins", "/services", "/budgets", "/triage", "/what-if/proposals")


def _as_admin_of_domain(people: People) -> tuple[User, ApiClient]:
    return with_role("dora", "admin", Domain.objects.create(name="south"), home_of(people))


def _as_admin_of_shop(people: People) -> tuple[User, ApiClient]:
    return with_role("dora", "admin", people.ana.project, home_of(people))


@pytest.mark.parametrize("make", [_as_admin_of_domain, _as_admin_of_shop])
def test_admin_of_less_than_the_cloud_has_no_rights_on_the_cloud(
    make: Callable[[People], tuple[User, ApiClient]], people: People
) -> None:
    dora, attacker = make(people)
    refused = [request for request in CLOUD if request[1] != f"{IDENTITY}/users" or make is _as_admin_of_shop]
    assert {request[:2]: attacker.call(*request).status_code for request in refused} == {
        request[:2]: 403 for request in refused
    }
    ana = f"{IDENTITY}/users/{people.ana.user.pk}"
    grants = f"{IDENTITY}/system/users/{dora.pk}/roles/{role_id('admin')}"
    attacks = [("PATCH", ana, {"user": {"password": "x"}}), ("DELETE", ana), ("GET", ana), ("PUT", grants)]
    assert statuses(attacker, *attacks) == {403}
    assert not RoleAssignment.objects.filter(user=dora, is_on_system=True).exists()
    assert User.objects.get(pk=people.ana.user.pk).password == people.ana.user.password


def test_admin_of_a_project_sees_and_changes_no_server_of_another(people: People) -> None:
    make_cloud(people)
    make_host("cell1", "sim-1-01")
    web = make_instance(people.chi.context(), "cell1", "web", host="sim-1-01", node="sim-1-01.example")
    _, attacker = _as_admin_of_shop(people)
    listed: Any = attacker.get("/compute/v2.1/servers/detail?all_tenants=1")
    path = f"/compute/v2.1/servers/{web.uuid}"
    reset = ("POST", f"{path}/action", {"os-resetState": {"state": "error"}})
    assert listed.status_code == 403 or listed.json()["servers"] == []
    assert statuses(attacker, ("GET", path), ("DELETE", path), reset) <= {403, 404}
    shown: Any = client_for(people.admin.user, people.admin.project).get(path)
    assert shown.json()["server"]["status"] == "ACTIVE"


def test_admin_of_a_project_is_a_tenant_in_the_portal(people: People, client: Any, settings: Any) -> None:
    dora, _ = _as_admin_of_shop(people)
    visits = {}
    for name, actor, project in (("dora", dora, people.ana.project), ("bo", people.bo.user, people.bo.project)):
        session = type(people.bo)(name, actor, project, people.bo.role).session()
        client.cookies[settings.SESSION_COOKIE_NAME] = session
        visits[name] = [client.get(page).status_code for page in PAGES]
    assert visits["dora"] == visits["bo"]


def test_admin_of_a_domain_manages_that_domain(people: People) -> None:
    south = Domain.objects.create(name="south")
    lab2 = Project.objects.create(domain=south, name="lab")
    _, dora = with_role("dora", "admin", south, south)
    made: Any = dora.post(f"{IDENTITY}/users", {"user": {"name": "eve"}})
    assert made.status_code == 201
    assert made.json()["user"]["domain_id"] == south.pk
    path = f"{IDENTITY}/users/{made.json()['user']['id']}"
    grant = f"{IDENTITY}/projects/{lab2.pk}/users/{made.json()['user']['id']}/roles"
    wanted = [("PATCH", path, {"user": {"email": "e@example.org"}}), ("PUT", f"{grant}/{role_id('admin')}")]
    assert statuses(dora, *wanted) == {200, 204}
    assert statuses(dora, ("PUT", f"{grant}/{role_id('service')}")) == {403}
    users: Any = dora.get(f"{IDENTITY}/users")
    assert {row["domain_id"] for row in users.json()["users"]} == {south.pk}


def test_the_admin_project_is_an_option(people: People, settings: Any) -> None:
    """Without one only a token for the system is an administrator's."""
    admin = people.admin.user
    give(admin, "admin", None)
    assert client_for(admin, people.admin.project).get("/compute/v2.1/os-hypervisors").status_code == 200
    settings.NOVELLA_ADMIN_PROJECT = ""
    requests = [request for request in CLOUD if request[0] == "GET"]
    assert statuses(client_for(admin, people.admin.project), *requests) == {403}
    assert statuses(client_for(admin, None), *requests) == {200}
    settings.NOVELLA_ADMIN_PROJECT = "shop"
    assert client_for(admin, people.admin.project).get("/compute/v2.1/os-hypervisors").status_code == 403


def test_any_project_can_be_one_of_the_clouds_administrators(people: People, settings: Any) -> None:
    """Clients that create administrators in projects of their own expect this; managers cannot create one."""
    home, shop = home_of(people), people.ana.project
    dora, _ = _as_admin_of_shop(people)
    requests = [request for request in CLOUD if request[0] == "GET"]
    assert statuses(client_for(dora, shop), *requests) == {403}
    settings.NOVELLA_ADMIN_PROJECT = "any"
    assert statuses(client_for(dora, shop), *requests) == {200}
    assert statuses(client_for(people.ana.user, shop), *requests) == {403}
    eve = user("eve", home)
    _, manager = with_role("fay", "manager", home, home)
    for role, wanted in (("admin", {403}), ("member", {204})):
        direct = f"{IDENTITY}/projects/{shop.pk}/users/{eve.pk}/roles/{role_id(role)}"
        inherited = (
            f"{IDENTITY}/OS-INHERIT/domains/{home.pk}/users/{eve.pk}/roles/{role_id(role)}/inherited_to_projects"
        )
        assert statuses(manager, ("PUT", direct), ("PUT", inherited)) == wanted


def test_a_token_for_the_system_changes_nothing_of_projects(people: People) -> None:
    give(people.admin.user, "admin", None)
    admin = client_for(people.admin.user, None)
    attacks = (
        ("POST", "/volume/v3/volumes", {"volume": {"size": 1}}),
        ("POST", "/network/v2.0/networks", {"network": {"name": "x"}}),
        ("POST", "/image/v2/images", {"name": "x"}),
        ("POST", "/compute/v2.1/os-server-groups", {"server_group": {"name": "x", "policies": ["affinity"]}}),
    )
    assert statuses(admin, *attacks) == {403}
