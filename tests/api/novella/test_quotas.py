"""Limits of the kinds of rows that OpenStack's quota APIs do not name: shown with use, set by operators, on record."""

from __future__ import annotations

from typing import Any

import pytest

from conductor import row_limits
from conductor.api_db.models import Quota
from conductor.journal.models import AuditRecord
from conductor.network import quotas as network_quotas
from conductor.network.models import NetworkQuota
from tests.api.network.calls import V2, fault, make

DEFAULTS = "/api/quota-defaults"
OPENSTACK = (
    ("/compute/v2.1/os-quota-sets/{}", "quota_set"),
    ("/compute/v2.1/os-quota-class-sets/default", "quota_class_set"),
    ("/volume/v3/os-quota-sets/{}", "quota_set"),
    ("/volume/v3/os-quota-class-sets/default", "quota_class_set"),
    ("/network/v2.0/quotas/{}", "quota"),
)


def scope(client: Any) -> Any:
    return client.post(f"{V2}/address-scopes", {"address_scope": {"name": "s", "ip_version": 4}})


def test_an_operator_sets_defaults_and_limits_of_a_project(api_client: Any, people: Any) -> None:
    admin, ana, chi = api_client("admin"), api_client("ana"), api_client("chi")
    shop = f"/api/quotas/{people.ana.project.id}"
    built_in = {kind: limit.default for kind, limit in row_limits.LIMITS.items()}
    built_in |= {name: counted.limit for name, counted in network_quotas.RESOURCES.items()}
    assert ana.get(DEFAULTS).json() == {"defaults": built_in}
    changed = admin.put(DEFAULTS, {"limits": {"address_scopes": 1, "trusts": 7}})
    assert changed.json() == {"defaults": {**built_in, "address_scopes": 1, "trusts": 7}}
    raised = admin.put(shop, {"limits": {"address_scopes": 2}})
    assert raised.json()["quotas"]["address_scopes"] == {"limit": 2, "default": 1, "in_use": 0, "owner": "project"}
    for client, most in ((ana, 2), (chi, 1)):
        assert [scope(client).status_code for _ in range(most)] == [201] * most
        assert fault(scope(client)) == (409, "OverQuota")
    assert ana.get(shop).json()["quotas"]["address_scopes"]["in_use"] == 2
    assert ana.get(shop).json()["quotas"]["trusts"] == {"limit": 7, "default": 7, "in_use": 0, "owner": "user"}
    assert admin.delete(shop).status_code == 204
    assert ana.get(shop).json()["quotas"]["address_scopes"]["limit"] == 1, "what there is stays, above the limit too"
    assert fault(scope(ana)) == (409, "OverQuota")
    assert admin.put(shop, {"limits": {"address_scopes": -1}}).status_code == 200
    assert scope(ana).status_code == 201
    rows = AuditRecord.objects.using("default").filter(action__in=("quota.update", "quota.reset"))
    assert sorted(rows.values_list("action", flat=True)) == ["quota.reset", *["quota.update"] * 3]


def test_an_operator_sets_the_defaults_of_networks_and_ports(api_client: Any, people: Any) -> None:
    """The Network API has a request for the limits of one project only."""
    admin, ana, chi = api_client("admin"), api_client("ana"), api_client("chi")
    own = f"{V2}/quotas/{people.chi.project.id}"
    changed = admin.put(DEFAULTS, {"limits": {"network": 1, "trusts": 7}})
    assert (changed.json()["defaults"]["network"], changed.json()["defaults"]["trusts"]) == (1, 7)
    assert admin.put(own, {"quota": {"network": 2}}).status_code == 200
    for client, most in ((ana, 1), (chi, 2)):
        found = [client.post(f"{V2}/networks", {"network": {"name": "n"}}) for _ in range(most + 1)]
        assert [answer.status_code for answer in found] == [201] * most + [409]
        assert fault(found[-1]) == (409, "OverQuota")
    assert ana.get(f"{V2}/quotas/{people.ana.project.id}").json()["quota"]["network"] == 1
    assert chi.get(f"{own}/default").json()["quota"]["network"] == 1
    (listed,) = admin.get(f"{V2}/quotas").json()["quotas"]
    assert (listed["project_id"], listed["network"], listed["port"]) == (people.chi.project.id, 2, 500)
    assert admin.delete(own).status_code == 204
    assert chi.get(own).json()["quota"]["network"] == 1
    refused = ana.put(DEFAULTS, {"limits": {"port": 9}})
    assert (refused.status_code, NetworkQuota.objects.filter(resource="port").exists()) == (403, False)


def test_use_is_of_the_project_the_caller_or_the_image_with_most(api_client: Any, people: Any) -> None:
    ana, bo = api_client("ana"), api_client("bo")
    make(ana, "address-scopes", name="s", ip_version=4)
    path = f"/identity/v3/users/{people.ana.user.id}/credentials/OS-EC2"
    assert ana.post(path, {"tenant_id": people.ana.project.id}).status_code == 201
    for number in (1, 2):
        image = ana.post("/image/v2/images", {"name": "mine", "visibility": "shared"}).json()["id"]
        for one in range(number):
            assert ana.post(f"/image/v2/images/{image}/members", {"member": f"{one:032x}"}).status_code == 200
    for client, credentials in ((ana, 1), (bo, 0)):
        found = client.get(f"/api/quotas/{people.ana.project.id}").json()["quotas"]
        assert {kind: one["in_use"] for kind, one in found.items() if one["in_use"]} == {
            "address_scopes": 1,
            "image_members": 2,
            **({"credentials": credentials} if credentials else {}),
        }


def test_a_limit_of_a_project_bounds_each_of_its_images(api_client: Any, people: Any) -> None:
    ana = api_client("ana")
    assert api_client("admin").put(f"/api/quotas/{people.ana.project.id}", {"limits": {"image_members": 1}})
    image = ana.post("/image/v2/images", {"name": "mine", "visibility": "shared"}).json()["id"]
    found = [ana.post(f"/image/v2/images/{image}/members", {"member": f"{one:032x}"}).status_code for one in range(2)]
    assert found == [200, 413]


@pytest.mark.parametrize(
    ("name", "path", "limits", "status"),
    [
        ("ana", DEFAULTS, {"trusts": 9}, 403),
        ("ana", "/api/quotas/{}", {"address_scopes": 9}, 403),
        ("admin", DEFAULTS, {"instances": 9}, 400),
        ("admin", DEFAULTS, {"trusts": -2}, 400),
        ("admin", DEFAULTS, {"trusts": "9"}, 400),
        ("admin", DEFAULTS, {}, 400),
        ("admin", "/api/quotas/{}", {"trusts": 9}, 400),
        ("admin", "/api/quotas/unknown", {"address_scopes": 9}, 404),
    ],
)
def test_refused_requests_change_nothing(
    api_client: Any, people: Any, name: str, path: str, limits: dict[str, Any], status: int
) -> None:
    answer = api_client(name).put(path.format(people.ana.project.id), {"limits": limits})
    assert answer.status_code == status, answer.content
    assert not Quota.objects.exists()


def test_another_project_s_use_is_hidden(api_client: Any, people: Any) -> None:
    chi, admin = api_client("chi"), api_client("admin")
    path = f"/api/quotas/{people.ana.project.id}"
    hidden, missing = chi.get(path), chi.get(f"/api/quotas/{'9' * 32}")
    assert (hidden.status_code, missing.status_code) == (404, 404)
    assert admin.get(path).status_code == 200


def test_the_apis_of_openstack_name_none_of_them(api_client: Any, people: Any) -> None:
    admin, project_id = api_client("admin"), people.ana.project.id
    before = [admin.get(path.format(project_id)).json()[key] for path, key in OPENSTACK]
    assert admin.put(DEFAULTS, {"limits": dict.fromkeys(row_limits.LIMITS, 9)}).status_code == 200
    own = dict.fromkeys(row_limits.OF_PROJECTS, 8)
    assert admin.put(f"/api/quotas/{project_id}", {"limits": own}).status_code == 200
    assert [admin.get(path.format(project_id)).json()[key] for path, key in OPENSTACK] == before
    assert not any(set(shown) & set(row_limits.LIMITS) for shown in before)
    assert api_client("admin").delete(f"/compute/v2.1/os-quota-sets/{project_id}").status_code == 202
    assert row_limits.limits(project_id)["address_scopes"] == 8
