"""The Network API, as clients use it: exact codes, bodies and what is left after a refusal."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from conductor.network import seed
from conductor.network.models import Network, Port, Subnet
from portal.api import validation
from tests.api.network.calls import V2, fault, ids, make, make_network


def test_discovery_needs_no_token(api_client: Any) -> None:
    for path in ("/network", "/network/"):
        answer = api_client(None).get(path)
        assert answer.status_code == 200
        assert answer.json() == {
            "versions": [
                {
                    "id": "v2.0",
                    "status": "CURRENT",
                    "links": [{"rel": "self", "href": "http://testserver/network/v2.0/"}],
                }
            ]
        }
    assert api_client(None).get(f"{V2}/").status_code == 200
    assert fault(api_client(None).get(f"{V2}/networks")) == (401, "NotAuthenticated")


def test_network_life(api_client: Any, people: Any) -> None:
    ana = api_client("ana")
    body = make(ana, "networks", name="inner", admin_state_up=True)
    created = body.pop("created_at")
    assert body.pop("updated_at") == created
    project = people.ana.project.id
    assert body == {
        "id": body["id"],
        "name": "inner",
        "description": "",
        "project_id": project,
        "tenant_id": project,
        "admin_state_up": True,
        "status": "ACTIVE",
        "subnets": [],
        "shared": False,
        "router:external": False,
        "is_default": False,
        "mtu": 1442,
        "port_security_enabled": True,
        "dns_domain": "",
        "qos_policy_id": None,
        "availability_zones": ["nova"],
        "availability_zone_hints": [],
        "ipv4_address_scope": None,
        "ipv6_address_scope": None,
        "tags": [],
        "revision_number": 0,
    }
    path = f"{V2}/networks/{body['id']}"
    subnet_id = make(ana, "subnets", network_id=body["id"], cidr="10.0.0.0/24")["id"]
    changed = ana.put(path, {"network": {"name": "outer", "mtu": 1400}})
    assert changed.status_code == 200
    shown = ana.get(path).json()["network"]
    assert changed.json()["network"] == shown
    assert (shown["name"], shown["mtu"], shown["subnets"], shown["revision_number"]) == ("outer", 1400, [subnet_id], 1)
    answer = ana.delete(path)
    assert (answer.status_code, answer.content) == (204, b"")
    assert fault(ana.get(path)) == (404, "NetworkNotFound")
    assert Subnet.objects.count() == 0


def test_lookup_by_name_as_the_sdk_does(api_client: Any, people: Any) -> None:
    seed.seed(people.admin.project.id)
    ana = api_client("ana")
    assert fault(ana.get(f"{V2}/networks/private")) == (404, "NetworkNotFound")
    found = ana.get(f"{V2}/networks?name=private").json()["networks"]
    assert [network["name"] for network in found] == ["private"]
    assert found[0]["shared"] is True


def test_a_floating_ip_reaches_a_port_of_the_auto_allocated_network(api_client: Any, people: Any) -> None:
    for _ in range(2):
        seed.seed(people.admin.project.id, leads_out=True)
    admin, ana = api_client("admin"), api_client("ana")
    (router,) = admin.get(f"{V2}/routers").json()["routers"]
    outside = ana.get(f"{V2}/networks?router:external=true").json()["networks"][0]["id"]
    assert router["external_gateway_info"]["network_id"] == outside
    network_id, _ = _shared_ids()
    port = make(ana, "ports", network_id=network_id)
    assert port["fixed_ips"][0]["ip_address"] == "10.64.0.2"  # the router has the gateway's
    found = make(ana, "floatingips", floating_network_id=outside, port_id=port["id"])
    assert found["router_id"] == router["id"]
    assert admin.delete(f"{V2}/floatingips/{found['id']}").status_code == 204
    off = {"subnet_id": port["fixed_ips"][0]["subnet_id"]}
    assert admin.put(f"{V2}/routers/{router['id']}/remove_router_interface", off).status_code == 200
    assert admin.delete(f"{V2}/routers/{router['id']}").status_code == 204
    seed.seed(people.admin.project.id, leads_out=True)
    assert admin.get(f"{V2}/routers").json() == {"routers": []}  # a deleted router is not created again


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        ({}, 400, "network"),
        ([], 400, "object"),
        ({"network": {"name": 5}}, 400, "network.name"),
        ({"network": {"name": "x" * 256}}, 400, "network.name"),
        ({"network": {"mtu": 5}}, 400, "network.mtu"),
        ({"network": {"color": "red"}}, 400, "color"),
        ({"network": {"admin_state_up": "perhaps"}}, 400, "admin_state_up"),
        ({"network": {"port_security_enabled": "perhaps"}}, 400, "port_security_enabled"),
        ({"network": {"is_default": True}}, 403, "default"),
        ({"network": {"provider:network_type": "vlan"}}, 403, "lies on"),
        ({"network": {"availability_zone_hints": ["moon"]}}, 404, "moon"),
        ({"network": {"tags": ["a,b"]}}, 400, "network.tags"),
        ({"network": {"shared": True}}, 403, "share"),
        ({"network": {"router:external": "true"}}, 403, "external"),
        ({"network": {"project_id": "f" * 32}}, 403, "another project"),
        ({"networks": []}, 400, "networks"),
        ({"networks": [{"name": "a"}, {"name": 5}]}, 400, "name"),
        ({"networks": [{"name": "a"}, {"shared": True}]}, 403, "share"),
    ],
)
def test_wrong_networks_make_nothing(api_client: Any, body: Any, status: int, word: str) -> None:
    answer = api_client("ana").post(f"{V2}/networks", body)
    assert answer.status_code == status
    assert word in answer.json()["NeutronError"]["message"]
    assert Network.objects.count() == 0


def test_several_at_once(api_client: Any) -> None:
    answer = api_client("ana").post(f"{V2}/networks", {"networks": [{"name": "a"}, {"name": "b"}]})
    assert answer.status_code == 201
    assert [network["name"] for network in answer.json()["networks"]] == ["a", "b"]


def test_subnet_defaults(api_client: Any) -> None:
    ana = api_client("ana")
    network_id = make(ana, "networks", name="inner")["id"]
    body = make(ana, "subnets", network_id=network_id, cidr="10.0.0.9/29", ip_version=4, name=None)
    assert body["cidr"] == "10.0.0.8/29"
    assert body["gateway_ip"] == "10.0.0.9"
    assert body["allocation_pools"] == [{"start": "10.0.0.10", "end": "10.0.0.14"}]
    assert (body["enable_dhcp"], body["dns_nameservers"], body["host_routes"]) == (True, [], [])
    six = make(ana, "subnets", network_id=network_id, cidr="fd00::/64", ip_version=6, gateway_ip=None)
    assert (six["gateway_ip"], six["allocation_pools"]) == (
        None,
        [{"start": "fd00::1", "end": "fd00::ffff:ffff:ffff:ffff"}],
    )
    middle = make(ana, "subnets", network_id=network_id, cidr="10.1.0.0/29", gateway_ip="10.1.0.4")
    assert middle["allocation_pools"] == [
        {"start": "10.1.0.1", "end": "10.1.0.3"},
        {"start": "10.1.0.5", "end": "10.1.0.6"},
    ]


@pytest.mark.parametrize(
    ("values", "status", "word"),
    [
        ({}, 400, "subnetpool"),
        ({"cidr": "10.0.0.128/25"}, 400, "overlaps with another subnet"),
        ({"cidr": "10.0.0.0/16"}, 400, "overlaps with another subnet"),
        ({"cidr": "nonsense"}, 400, "cidr"),
        ({"cidr": "10.9.0.0/24", "ip_version": 6}, 400, "IPv6"),
        ({"cidr": "10.9.0.0/32"}, 400, "no room"),
        ({"cidr": "10.9.0.0/24", "ip_version": 5}, 400, "ip_version"),
        ({"cidr": "10.9.0.0/24", "gateway_ip": "10.8.0.1"}, 400, "Gateway"),
        ({"cidr": "10.9.0.0/24", "gateway_ip": "10.9.0.255"}, 400, "Gateway"),
        ({"cidr": "10.9.0.0/24", "allocation_pools": [{"start": "10.9.0.9", "end": "10.9.0.2"}]}, 400, "pool"),
        ({"cidr": "10.9.0.0/24", "allocation_pools": [{"start": "10.9.0.9", "end": "10.9.1.2"}]}, 400, "pool"),
        ({"cidr": "10.9.0.0/24", "allocation_pools": [{"start": "10.9.0.1", "end": "10.9.0.2"}]}, 409, "Gateway"),
        (
            {
                "cidr": "10.9.0.0/24",
                "allocation_pools": [
                    {"start": "10.9.0.5", "end": "10.9.0.9"},
                    {"start": "10.9.0.7", "end": "10.9.0.8"},
                ],
            },
            400,
            "overlapping",
        ),
        ({"cidr": "10.9.0.0/24", "dns_nameservers": ["nine"]}, 400, "dns_nameservers"),
        ({"cidr": "10.9.0.0/24", "dns_nameservers": ["9.9.9.9", "9.9.9.9"]}, 400, "Duplicate"),
        ({"cidr": "10.9.0.0/24", "color": "red"}, 400, "color"),
        ({"cidr": "10.9.0.0/24", "subnetpool_id": str(uuid4())}, 404, "pool"),
        ({"cidr": "10.9.0.0/24", "network_id": str(uuid4())}, 404, "Network"),
    ],
)
def test_wrong_subnets_make_nothing(api_client: Any, values: Any, status: int, word: str) -> None:
    ana = api_client("ana")
    network_id, _ = make_network(ana)
    answer = ana.post(f"{V2}/subnets", {"subnet": {"network_id": network_id, **values}})
    assert answer.status_code == status, answer.content
    assert word in answer.json()["NeutronError"]["message"]
    assert Subnet.objects.count() == 1


def test_subnet_changes(api_client: Any) -> None:
    ana = api_client("ana")
    _, subnet_id = make_network(ana)
    path = f"{V2}/subnets/{subnet_id}"
    body = {"subnet": {"name": "x", "gateway_ip": None, "dns_nameservers": ["9.9.9.9"], "enable_dhcp": False}}
    changed = ana.put(path, body)
    assert changed.status_code == 200
    shown = ana.get(path).json()["subnet"]
    assert {name: shown[name] for name in body["subnet"]} == body["subnet"]
    assert fault(ana.put(path, {"subnet": {"gateway_ip": "10.0.0.5"}})) == (409, "GatewayConflictWithAllocationPools")
    assert ana.put(path, {"subnet": {"cidr": "10.1.0.0/24"}}).status_code == 400
    assert ana.get(path).json()["subnet"] == shown


def test_subnets_are_cut_from_the_pool(api_client: Any, people: Any) -> None:
    seed.seed(people.admin.project.id)
    ana = api_client("ana")
    pools = ana.get(f"{V2}/subnetpools").json()["subnetpools"]
    assert [(pool["name"], pool["prefixes"], pool["shared"]) for pool in pools] == [
        ("default-pool", ["10.64.0.0/16"], True)
    ]
    pool_id = pools[0]["id"]
    assert ana.get(f"{V2}/subnetpools/{pool_id}").status_code == 200
    network_id = make(ana, "networks", name="inner")["id"]
    cidrs = [
        make(ana, "subnets", network_id=network_id, subnetpool_id=pool_id, **values)["cidr"]
        for values in ({}, {"prefixlen": 28}, {"prefixlen": "25"}, {})
    ]
    assert cidrs == ["10.64.16.0/24", "10.64.17.0/28", "10.64.17.128/25", "10.64.18.0/24"]
    wanted = {"subnet": {"network_id": network_id, "subnetpool_id": pool_id, "prefixlen": 16}}
    answer = ana.post(f"{V2}/subnets", wanted)
    assert answer.status_code == 400
    assert "Insufficient prefix space" in answer.json()["NeutronError"]["message"]
    for cidr, word in (("10.64.16.0/26", "is cut from the pool already"), ("10.65.0.0/24", "it is not in pool")):
        wanted["subnet"] = {"network_id": make(ana, "networks")["id"], "subnetpool_id": pool_id, "cidr": cidr}
        answer = ana.post(f"{V2}/subnets", wanted)
        assert answer.status_code == 400
        assert word in answer.json()["NeutronError"]["message"]


@pytest.mark.parametrize(
    "query",
    [
        "limit=-1",
        "limit=x",
        "marker=00000000-0000-4000-8000-000000000000",
        "marker=x",
        "sort_key=secret",
        "sort_key=name&sort_dir=up",
        "sort_dir=asc",
        "admin_state_up=perhaps",
        "changed_since=yesterday",
        "fixed_ips=color=red",
        "name=%00",
        "tags=%00",
    ],
)
def test_wrong_queries_are_400(api_client: Any, query: str) -> None:
    assert api_client("ana").get(f"{V2}/ports?{query}").status_code == 400


@pytest.mark.parametrize("sort", ["", "&sort_key=name&sort_dir=desc"])
def test_paging_returns_every_network_once(api_client: Any, sort: str) -> None:
    ana = api_client("ana")
    for number in range(5):
        make(ana, "networks", name=f"n{number % 2}")
    whole = [network["id"] for network in ana.get(f"{V2}/networks?admin_state_up=true{sort}").json()["networks"]]
    seen, url = [], f"{V2}/networks?admin_state_up=true&limit=1{sort}"
    while url:
        body = ana.get(url.removeprefix("http://testserver")).json()
        seen += [network["id"] for network in body["networks"]]
        url = next((link["href"] for link in body.get("networks_links", []) if link["rel"] == "next"), "")
        assert not url or "admin_state_up=true" in url
    assert seen == whole
    assert len(set(seen)) == 5


@pytest.mark.parametrize("collection", ["networks", "subnets", "ports", "security-groups"])
def test_lists_cost_the_same_for_many(api_client: Any, django_assert_max_num_queries: Any, collection: str) -> None:
    ana = api_client("ana")
    network_id, _ = make_network(ana)
    for number in range(8):
        make_network(ana, f"10.{number}.0.0/24")
        make(ana, "ports", network_id=network_id)
        make(ana, "security-groups", name=f"g{number}")
    with django_assert_max_num_queries(8):
        answer = ana.get(f"{V2}/{collection}")
    assert len(answer.json()[collection.replace("-", "_")]) >= 8


def test_resources_of_other_projects_are_not_found(api_client: Any) -> None:
    ana, bo, chi = api_client("ana"), api_client("bo"), api_client("chi")
    network_id, subnet_id = make_network(ana)
    port_id = make(ana, "ports", network_id=network_id)["id"]
    group_id = make(ana, "security-groups", name="web")["id"]
    paths = [f"networks/{network_id}", f"subnets/{subnet_id}", f"ports/{port_id}", f"security-groups/{group_id}"]
    for path in paths:
        assert bo.get(f"{V2}/{path}").status_code == 200
        assert chi.get(f"{V2}/{path}").status_code == 404
        assert chi.put(f"{V2}/{path}", {}).status_code == 404
        assert chi.delete(f"{V2}/{path}").status_code == 404
    for collection in ("networks", "subnets", "ports"):
        assert ids(chi.get(f"{V2}/{collection}"), collection) == set()
    assert group_id not in ids(chi.get(f"{V2}/security-groups"), "security_groups")
    assert fault(chi.post(f"{V2}/ports", {"port": {"network_id": network_id}})) == (404, "NetworkNotFound")
    assert Port.objects.count() == 1


def _shared_ids() -> tuple[str, str]:
    network = Network.objects.get(name="private")
    return str(network.uuid), str(network.subnets.get().uuid)


def test_a_shared_network_is_used_but_not_changed(api_client: Any, people: Any) -> None:
    seed.seed(people.admin.project.id)
    network_id, subnet_id = _shared_ids()
    ana = api_client("ana")
    for path, name in ((f"networks/{network_id}", "network"), (f"subnets/{subnet_id}", "subnet")):
        assert fault(ana.put(f"{V2}/{path}", {name: {"name": "mine"}})) == (403, "PolicyNotAuthorized")
        assert fault(ana.delete(f"{V2}/{path}")) == (403, "PolicyNotAuthorized")
    subnet = {"subnet": {"network_id": network_id, "cidr": "10.0.0.0/24"}}
    assert fault(ana.post(f"{V2}/subnets", subnet)) == (403, "PolicyNotAuthorized")
    own_mac = {"port": {"network_id": network_id, "mac_address": "fa:16:3e:00:00:03"}}
    assert fault(ana.post(f"{V2}/ports", own_mac)) == (403, "PolicyNotAuthorized")
    assert make(ana, "ports", network_id=network_id)["fixed_ips"][0]["ip_address"] == "10.64.0.2"
    assert ids(api_client("bo").get(f"{V2}/ports"), "ports") == ids(ana.get(f"{V2}/ports"), "ports")
    assert ids(api_client("chi").get(f"{V2}/ports"), "ports") == set()


def test_readers_only_read(api_client: Any) -> None:
    reader = api_client("rea")
    assert reader.get(f"{V2}/networks").status_code == 200
    assert reader.post(f"{V2}/networks", {"network": {"name": "x"}}).status_code == 403
    assert Network.objects.count() == 0


def test_further_requests_of_clients(api_client: Any, people: Any) -> None:
    ana, admin = api_client("ana"), api_client("admin")
    extensions = {extension["alias"] for extension in ana.get(f"{V2}/extensions").json()["extensions"]}
    assert {"security-group", "external-net", "binding", "quotas", "project-id", "router"} <= extensions
    assert not {"metering", "dvr", "agent"} & extensions
    assert ana.get(f"{V2}/extensions/binding").json()["extension"]["alias"] == "binding"
    assert fault(ana.get(f"{V2}/extensions/metering")) == (404, "ExtensionNotFound")
    assert ana.get(f"{V2}/quotas/{people.chi.project.id}").status_code == 403
    zones = ana.get(f"{V2}/availability_zones").json()["availability_zones"]
    assert [(zone["name"], zone["resource"]) for zone in zones] == [("nova", "network"), ("nova", "router")]
    assert admin.get(f"{V2}/agents").json() == {"agents": []}
    assert ana.get(f"{V2}/service-providers").json() == {"service_providers": []}
    assert ana.get(f"{V2}/nothing").status_code == 404


def test_requests_share_the_schemas_of_their_bodies(api_client: Any) -> None:
    """A validator is kept for each schema, so a request that builds a schema leaves both behind."""
    made = [_write(api_client("admin"), name) for name in ("first", "second", "third")]
    assert made[1] == made[2]


def _write(admin: Any, name: str) -> int:
    """Send a body to each kind of view, and return the number of validators afterwards."""
    network = make(admin, "networks", name=name)["id"]
    answers = [
        admin.post(f"{V2}/networks", {"networks": [{"name": name}]}),
        admin.put(f"{V2}/networks/{network}", {"network": {"description": name}}),
        admin.put(f"{V2}/networks/{network}/tags/{name}"),
        admin.put(f"{V2}/quotas/{name}", {"quota": {"port": 7}}),
    ]
    assert [answer.status_code for answer in answers] == [201, 200, 201, 200]
    return len(validation._validators)
