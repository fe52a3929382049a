"""Pages of load balancers and their parts: created, changed and deleted by forms, with errors at their fields."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from conductor.journal.models import AuditRecord
from conductor.network import port_operations
from conductor.network.models import (
    BalancerListener,
    BalancerPool,
    FloatingIp,
    HealthMonitor,
    LoadBalancer,
    Network,
    PoolMember,
    Port,
)
from conductor.network.port_operations import PortCreate
from portal.pages.networking import load_balancers
from portal.pages.resources import service_calls
from tests import factories
from tests.api_client import ApiClient
from tests.integration.page_clients import signed_in, text

ROOT = "/load-balancer/v2.0/lbaas"
KINDS = {one.id: one for one in load_balancers.KINDS}


@pytest.fixture
def ana(people: Any, settings: Any) -> Client:
    settings.NOVELLA_OVN_NORTHBOUND = "unix:/none.sock"
    factories.cells()
    return signed_in("ana")


@pytest.fixture
def network(people: Any) -> Network:
    made = factories.network("inner", people.ana.context(), "10.9.0.0/24")
    made.subnets.update(gateway_ip="10.9.0.1", allocation_pools=[{"start": "10.9.0.10", "end": "10.9.0.250"}])
    return made


def do(client: Client, path: str, **values: Any) -> Any:
    answer = client.post(path, values)
    assert answer.status_code == 302, text(answer)
    return answer


def refused(client: Client, path: str, **values: Any) -> str:
    answer = client.post(path, values)
    assert answer.status_code in (400, 404, 409), answer.status_code
    return text(answer)


def balanced(client: Client, network: Network, name: str = "front", **values: str) -> LoadBalancer:
    """Create a load balancer by the form; by default with a listener of port 80 and its pool."""
    subnet = str(network.subnets.get().uuid)
    sent = {"name": name, "vip_subnet_id": subnet, "protocol": "TCP", "protocol_port": "80", **values}
    do(client, "/load-balancers/do/create", **sent)
    return LoadBalancer.objects.get(name=name)


def options_of(client: Client, path: str, field: str) -> dict[str, str]:
    """Return the options of a field, value → words."""
    (select,) = re.findall(rf'<select[^>]* name="{field}".*?</select>', text(client.get(path)))
    return dict(re.findall('<option value="([^"]*)"[^>]*>([^<]*)</option>', select))


def state_on(client: Client, path: str) -> str:
    """Return the state in the head of a page."""
    return re.findall(r"</h1><span>.*?([a-z ]+)</span></span>", text(client.get(path)), re.DOTALL)[0].strip()


def test_a_form_creates_a_load_balancer_with_its_first_listener_and_pool(ana: Client, network: Network) -> None:
    made = balanced(ana, network, vip_address="10.9.0.99")
    listener = BalancerListener.objects.get(balancer=made)
    assert (made.vip_address, listener.protocol, listener.protocol_port) == ("10.9.0.99", "TCP", 80)
    assert listener.default_pool == BalancerPool.objects.get(balancer=made)
    assert listener.default_pool.name == "front"
    page = text(ana.get(f"/load-balancers/of/{made.uuid}"))
    for part in (f"/listeners/of/{listener.uuid}", f"/pools/of/{listener.default_pool.uuid}", "10.9.0.99"):
        assert part in page
    assert "front" in text(ana.get(f"/networks/of/{network.uuid}"))
    assert "front" in text(ana.get(f"/ports/of/{made.vip_port.uuid}"))
    recorded = AuditRecord.objects.filter(result="done").values_list("action", flat=True)
    assert {"load_balancer.create", "listener.create", "pool.create"} <= set(recorded)


def test_without_a_port_there_is_only_the_load_balancer(ana: Client, network: Network) -> None:
    balanced(ana, network, protocol_port="")
    assert not BalancerListener.objects.exists()
    assert not BalancerPool.objects.exists()


def test_a_listener_that_is_refused_leaves_the_load_balancer_and_says_so(
    ana: Client, people: Any, network: Network
) -> None:
    admin = ApiClient(people.admin.token())
    limits = {"quota": {"listener": 0}}
    assert admin.put(f"{ROOT}/quotas/{people.ana.context().project_id}", limits).status_code == 202
    made = balanced(ana, network)
    assert not BalancerListener.objects.exists()
    assert not BalancerPool.objects.exists()
    assert "listener" in text(ana.get(f"/load-balancers/of/{made.uuid}"))


def test_parts_are_added_changed_and_deleted(ana: Client, network: Network) -> None:
    made = balanced(ana, network, protocol_port="")
    balancer = str(made.uuid)
    added = do(ana, "/pools/do/create", loadbalancer_id=balancer, protocol="TCP", name="web", listener_id="")
    assert added["Location"] == f"/load-balancers/of/{balancer}"
    pool = BalancerPool.objects.get()
    do(
        ana,
        "/listeners/do/create",
        loadbalancer_id=balancer,
        protocol="TCP",
        protocol_port="443",
        default_pool_id=str(pool.uuid),
        name="https",
    )
    listener = BalancerListener.objects.get()
    assert (listener.name, listener.protocol_port, listener.default_pool) == ("https", 443, pool)
    added = do(
        ana, "/pool-members/do/create", pool_id=str(pool.uuid), address="10.9.0.11", protocol_port="8443", name="one"
    )
    assert added["Location"] == f"/pools/of/{pool.uuid}"
    checks = {"delay": "9", "timeout": "3", "max_retries": "2", "max_retries_down": "4"}
    do(ana, "/health-monitors/do/create", pool_id=str(pool.uuid), type="TCP", **checks)
    member, monitor = PoolMember.objects.get(), HealthMonitor.objects.get()
    assert (member.address, member.protocol_port) == ("10.9.0.11", 8443)
    assert (monitor.delay, monitor.timeout, monitor.max_retries, monitor.max_retries_down) == (9, 3, 2, 4)

    do(ana, "/load-balancers/do/edit", item=balancer, name="rear", description="d", admin_state_up="")
    do(ana, "/listeners/do/edit", item=str(listener.uuid), name="tls", default_pool_id="", admin_state_up="yes")
    do(ana, "/pools/do/edit", item=str(pool.uuid), name="app", description="", admin_state_up="")
    do(ana, "/pool-members/do/edit", item=str(member.uuid), name="two", admin_state_up="")
    do(ana, "/health-monitors/do/edit", item=str(monitor.uuid), name="hm", **{**checks, "delay": "5"})
    for row in (made, listener, pool, member, monitor):
        row.refresh_from_db()
    assert (made.name, made.description, made.is_admin_up) == ("rear", "d", False)
    assert (listener.name, listener.default_pool, listener.is_admin_up) == ("tls", None, True)
    assert (pool.name, pool.is_admin_up) == ("app", False)
    assert (member.name, member.is_admin_up) == ("two", False)
    assert (monitor.name, monitor.delay) == ("hm", 5)

    for kind, row in (("health-monitors", monitor), ("pool-members", member)):
        gone = do(ana, f"/{kind}/do/delete", item=str(row.uuid))
        assert gone["Location"] == f"/pools/of/{pool.uuid}"
    for kind, row in (("listeners", listener), ("pools", pool)):
        assert do(ana, f"/{kind}/do/delete", item=str(row.uuid))["Location"] == f"/load-balancers/of/{balancer}"
    assert do(ana, "/load-balancers/do/delete", item=balancer)["Location"] == "/load-balancers"
    assert not LoadBalancer.objects.exists()


def test_forms_of_parts_begin_with_what_they_are_added_to(ana: Client, network: Network) -> None:
    made = balanced(ana, network, protocol="UDP")
    pool = str(BalancerPool.objects.get().uuid)
    member, monitor = f"?pool_id={pool}", f"?pool_id={pool}&type=UDP-CONNECT"
    for path in (f"/load-balancers/of/{made.uuid}", f"/pools/of/{pool}"):
        page = text(ana.get(path))
        assert f'href="/pool-members/do/create{member}"' in page
        assert f'href="/health-monitors/do/create{monitor}"' in page
    assert f'href="/listeners/of/{BalancerListener.objects.get().uuid}">UDP 80<' in text(ana.get(f"/pools/of/{pool}"))
    assert f'href="/pools/of/{pool}">Cancel' in text(ana.get(f"/pool-members/do/create{member}"))
    checks = {"delay": "5", "timeout": "3", "max_retries": "3", "max_retries_down": "3"}
    do(ana, "/health-monitors/do/create", pool_id=pool, type="UDP-CONNECT", **checks)
    assert "/health-monitors/do/create" not in text(ana.get(f"/pools/of/{pool}"))


def test_a_load_balancer_is_deleted_with_its_parts_and_its_address(ana: Client, network: Network) -> None:
    made = balanced(ana, network)
    do(ana, "/load-balancers/do/delete", item=str(made.uuid))
    assert not BalancerPool.objects.exists()
    assert not Port.objects.filter(pk=made.vip_port_id).exists()


def test_refusals_are_at_their_fields(ana: Client, people: Any, network: Network) -> None:
    subnet = str(network.subnets.get().uuid)
    outside = factories.network("outside", people.admin.context(), "203.0.113.0/24", is_external=True)
    sent = {"name": "front", "protocol": "TCP", "vip_subnet_id": subnet}
    for values, field in (
        ({"vip_address": "10.8.0.5"}, "vip_address"),
        ({"vip_address": "here"}, "vip_address"),
        ({"protocol_port": "70000"}, "protocol_port"),
        ({"vip_subnet_id": str(outside.subnets.get().uuid)}, "vip_subnet_id"),
        ({"name": ""}, "name"),
    ):
        page = refused(ana, "/load-balancers/do/create", **{**sent, **values})
        assert f'id="field-{field}" data-wrong' in page, (values, page)
    assert not LoadBalancer.objects.exists()

    made = balanced(ana, network)
    pool = BalancerPool.objects.get()
    udp = {"loadbalancer_id": str(made.uuid), "protocol": "UDP", "protocol_port": "53"}
    member = {"pool_id": str(pool.uuid), "address": "10.9.0.11", "protocol_port": "80"}
    checks = {"type": "TCP", "delay": "5", "timeout": "3", "max_retries": "3", "max_retries_down": "3"}
    monitor = {"pool_id": str(pool.uuid), **checks}
    do(ana, "/pool-members/do/create", **member)
    for kind, values, field in (
        ("listeners", {**udp, "protocol": "TCP", "protocol_port": "80"}, "protocol_port"),
        ("listeners", {**udp, "default_pool_id": str(pool.uuid)}, "default_pool_id"),
        ("pools", {**udp, "listener_id": str(BalancerListener.objects.get().uuid)}, "listener_id"),
        ("pool-members", member, "address"),
        ("pool-members", {**member, "address": ""}, "address"),
        ("pool-members", {**member, "address": "192.0.2.1"}, "address"),
        ("pool-members", {**member, "protocol_port": ""}, "protocol_port"),
        ("health-monitors", {**monitor, "delay": "2"}, "delay"),
        ("health-monitors", {**monitor, "type": "UDP-CONNECT"}, "type"),
    ):
        page = refused(ana, f"/{kind}/do/create", **values)
        assert f'id="field-{field}" data-wrong' in page, (kind, values)
    assert (BalancerListener.objects.count(), PoolMember.objects.count(), HealthMonitor.objects.count()) == (1, 1, 0)
    do(ana, "/health-monitors/do/create", **monitor)
    assert 'id="field-pool_id" data-wrong' in refused(ana, "/health-monitors/do/create", **monitor)


def test_a_server_becomes_a_member_by_its_name(ana: Client, people: Any, network: Network) -> None:
    context = people.ana.context()
    server = factories.instance(context, "web-1")
    device = {"device_id": str(server.uuid), "device_owner": "compute:nova"}
    port = port_operations.create_port(context, PortCreate(network_id=str(network.uuid), values=device))
    address, subnet = port.addresses.get().ip_address, str(network.subnets.get().uuid)
    balanced(ana, network)
    pool = BalancerPool.objects.get()
    offered = options_of(ana, "/pool-members/do/create", "server_address")
    assert offered == {"": "Another address", f"{address} {subnet}": f"web-1 · {address}"}
    sent = {"pool_id": str(pool.uuid), "server_address": f"{address} {subnet}", "protocol_port": "8080"}
    do(ana, "/pool-members/do/create", **sent)
    member = PoolMember.objects.get()
    assert (member.address, str(member.subnet_uuid)) == (address, subnet)
    for path in (f"/pools/of/{pool.uuid}", f"/pool-members/of/{member.uuid}"):
        assert f'href="/servers/{server.uuid}">web-1<' in text(ana.get(path))
    Port.objects.filter(pk=port.pk).update(is_plugged=True, binding_host="sim-1")
    page = text(ana.get(f"/servers/{server.uuid}/network"))
    assert f"/load-balancers/of/{LoadBalancer.objects.get().uuid}" in page


def test_a_server_of_another_project_is_not_shown_at_a_member(ana: Client, people: Any) -> None:
    shared = factories.network("shared", people.admin.context(), "10.9.0.0/24", is_shared=True)
    shared.subnets.update(gateway_ip="10.9.0.1", allocation_pools=[{"start": "10.9.0.10", "end": "10.9.0.250"}])
    server = factories.instance(people.chi.context(), "secret-7")
    device = {"device_id": str(server.uuid), "device_owner": "compute:nova"}
    port = port_operations.create_port(people.chi.context(), PortCreate(network_id=str(shared.uuid), values=device))
    balanced(ana, shared)
    pool = str(BalancerPool.objects.get().uuid)
    address = port.addresses.get().ip_address
    do(ana, "/pool-members/do/create", pool_id=pool, address=address, protocol_port="80")
    assert str(server.uuid) not in text(ana.get(f"/pools/of/{pool}"))
    assert "secret-7" not in text(ana.get("/pool-members/do/create"))


def test_the_state_says_what_is_missing_and_how_members_answer(ana: Client, network: Network) -> None:
    made = balanced(ana, network, protocol_port="")
    address = f"/load-balancers/of/{made.uuid}"
    assert state_on(ana, address) == "creating"
    rows = LoadBalancer.objects.filter(pk=made.pk)
    rows.update(projected_revision=1000)
    assert state_on(ana, address) == "no listeners"
    listener = {"loadbalancer_id": str(made.uuid), "protocol": "TCP", "protocol_port": "80"}
    do(ana, "/listeners/do/create", **listener)
    assert state_on(ana, f"/listeners/of/{BalancerListener.objects.get().uuid}") == "no pool"
    parts = {**listener, "listener_id": str(BalancerListener.objects.get().uuid)}
    do(ana, "/pools/do/create", **parts)
    assert state_on(ana, address) == "no members"
    pool = str(BalancerPool.objects.get().uuid)
    assert state_on(ana, f"/pools/of/{pool}") == "no members"
    for last in "12":
        do(ana, "/pool-members/do/create", pool_id=pool, address=f"10.9.0.1{last}", protocol_port="80")
    member = PoolMember.objects.order_by("pk").first()
    assert member is not None
    assert state_on(ana, f"/pool-members/of/{member.uuid}") == "not checked"
    PoolMember.objects.filter(pk=member.pk).update(operating_status="OFFLINE")
    assert state_on(ana, f"/pool-members/of/{member.uuid}") == "offline"
    assert state_on(ana, address) == state_on(ana, f"/pools/of/{pool}") == "degraded"
    rows.update(projected_revision=0)
    assert state_on(ana, address) == "updating"
    rows.update(projected_revision=1000, is_admin_up=False)
    assert state_on(ana, address) == "not enabled"


def test_the_address_gets_a_floating_ip(ana: Client, people: Any, network: Network) -> None:
    outside = factories.network("outside", people.admin.context(), "203.0.113.0/24", is_external=True)
    outside.subnets.update(
        gateway_ip="203.0.113.1", allocation_pools=[{"start": "203.0.113.10", "end": "203.0.113.90"}]
    )
    made = balanced(ana, network)
    do(
        ana,
        "/pool-members/do/create",
        pool_id=str(BalancerPool.objects.get().uuid),
        address="10.9.0.11",
        protocol_port=1,
    )
    checks = {"type": "TCP", "delay": "5", "timeout": "3", "max_retries": "3", "max_retries_down": "3"}
    do(ana, "/health-monitors/do/create", pool_id=str(BalancerPool.objects.get().uuid), **checks)
    do(ana, "/routers/do/create", name="edge", gateway=str(outside.uuid))
    do(ana, "/routers/do/add-subnet", item=_router(ana), subnet_id=str(network.subnets.get().uuid))
    port = str(made.vip_port.uuid)
    page = text(ana.get(f"/load-balancers/of/{made.uuid}"))
    assert f"/floating-ips/do/create?port_id={port}" in page
    offered = options_of(ana, "/floating-ips/do/create", "port_id")
    assert offered == {"": "Not attached", port: f"{made.vip_address} · load balancer"}
    do(ana, "/floating-ips/do/create", floating_network_id=str(outside.uuid), port_id=port)
    assert FloatingIp.objects.get().address in text(ana.get(f"/load-balancers/of/{made.uuid}"))


def _router(client: Client) -> str:
    return re.findall(r"/routers/of/([0-9a-f-]{36})", text(client.get("/routers")))[0]


def test_without_ovn_pages_say_so_and_create_nothing(ana: Client, network: Network, settings: Any) -> None:
    settings.NOVELLA_OVN_NORTHBOUND = ""
    assert "Load balancers need OVN" in text(ana.get("/load-balancers"))
    sent = {"name": "front", "vip_subnet_id": str(network.subnets.get().uuid), "protocol": "TCP"}
    answer = ana.post("/load-balancers/do/create", sent)
    assert (answer.status_code, "Load balancers need OVN" in text(answer)) == (503, True)
    assert not LoadBalancer.objects.exists()


def test_pages_have_what_the_api_has(ana: Client, people: Any, network: Network) -> None:
    balanced(ana, network)
    pool = str(BalancerPool.objects.get().uuid)
    do(ana, "/pool-members/do/create", pool_id=pool, address="10.9.0.11", protocol_port="80")
    checks = {"type": "TCP", "delay": "5", "timeout": "3", "max_retries": "3", "max_retries_down": "3"}
    do(ana, "/health-monitors/do/create", pool_id=pool, **checks)
    lists = {
        "load-balancers": "loadbalancers",
        "listeners": "listeners",
        "pools": "pools",
        "pool-members": f"pools/{pool}/members",
        "health-monitors": "healthmonitors",
    }
    assert lists.keys() == KINDS.keys()
    for person in (people.ana, people.admin):
        caller, client = person.context(), ApiClient(person.token())
        for ident, path in lists.items():
            shown = client.get(f"{ROOT}/{path}").json()[path.rpartition("/")[2]]
            items = service_calls.list_items(caller, KINDS[ident], {"limit": 100}).items
            assert [{**item, **one} for item, one in zip(items, shown, strict=True)] == items
            assert items == [service_calls.get_item(caller, KINDS[ident], item["id"]) for item in items]
    for kind in KINDS.values():
        assert service_calls.list_items(people.chi.context(), kind, {"limit": 100}).items == []


def test_readers_see_load_balancers_and_change_nothing(ana: Client, network: Network) -> None:
    made = balanced(ana, network)
    rea = signed_in("rea")
    page = text(rea.get(f"/load-balancers/of/{made.uuid}"))
    assert "front" in page
    assert "/do/create" not in page
    assert "/load-balancers/do/delete" not in page
    assert rea.post("/load-balancers/do/delete", {"item": str(made.uuid)}).status_code == 403
    assert LoadBalancer.objects.count() == 1


def test_the_quota_page_counts_load_balancers(ana: Client, network: Network) -> None:
    balanced(ana, network)
    page = text(ana.get("/quotas"))
    for words in ("Load balancers", "Listeners", "Pools", "Pool members", "Health monitors"):
        assert f">{words}<" in page
