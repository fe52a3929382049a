"""Pages of networks, images, groups and credentials: created by forms, drawn, and checked for reachability."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from conductor.cell_db.models import ComputeNode, Instance
from conductor.core.errors import Invalid, NotFound
from conductor.identity.models import ApplicationCredential
from conductor.image.models import Image
from conductor.network import port_operations, security_groups
from conductor.network.models import FloatingIp, Network, Port, Router, SecurityGroup, SecurityGroupRule, Subnet
from conductor.network.port_operations import PortCreate
from conductor.network.security_groups import SecurityGroupRuleCreate
from conductor.services.networks import reachability
from conductor.services.servers import flavors
from portal.pages.resource_pages.catalog import BY_ID
from portal.pages.resources import service_calls
from tests import factories
from tests.api_client import ApiClient
from tests.integration.page_clients import text
from tests.people import PASSWORD

# The collections of the network API by the id of their pages.
SEGMENTS = {one: one for one in ("networks", "subnets", "ports", "routers", "security-groups")}
SEGMENTS |= {"floating-ips": "floatingips", "security-rules": "security-group-rules"}


@pytest.fixture
def ana(people: Any) -> Client:
    factories.cells()
    client = Client()
    assert client.post("/sign-in", {"username": "ana", "password": PASSWORD}).status_code == 302
    return client


def do(client: Client, path: str, **values: Any) -> Any:
    answer = client.post(path, values)
    assert answer.status_code == 302, text(answer)
    return answer


def lan(name: str, caller: Any, start: str = "10.9.0", **values: Any) -> Network:
    """Return a network with one subnet of 256 addresses."""
    made = factories.network(name, caller, f"{start}.0/24", **values)
    pools = [{"start": f"{start}.10", "end": f"{start}.250"}]
    made.subnets.update(gateway_ip=f"{start}.1", allocation_pools=pools)
    return made


def plugged(people: Any, network: Network, name: str, *groups: str) -> tuple[str, Port]:
    """Return a server of ana's with a port on the network."""
    context = people.ana.context()
    server = factories.instance(context, name)
    requested = PortCreate(
        network_id=str(network.uuid),
        security_groups=list(groups) or None,
        values={"device_id": str(server.uuid), "device_owner": "compute:nova", "name": f"{name}-port"},
    )
    return str(server.uuid), port_operations.create_port(context, requested)


def test_networks_are_made_joined_and_drawn(ana: Client, people: Any) -> None:
    outside = lan("outside", people.admin.context(), "203.0.113", is_external=True)
    do(ana, "/networks/do/create", name="inner", mtu="", description="")
    inner = Network.objects.get(name="inner")
    wrong = ana.post("/subnets/do/create", {"network_id": str(inner.uuid), "cidr": "10.9.0.0/99", "ip_version": "4"})
    assert wrong.status_code == 400
    assert 'id="field-cidr" data-wrong' in text(wrong)
    assert not Subnet.objects.filter(network=inner).exists()
    do(ana, "/subnets/do/create", network_id=str(inner.uuid), cidr="10.9.0.0/24", ip_version="4", enable_dhcp="yes")
    do(ana, "/routers/do/create", name="door", gateway=str(outside.uuid), description="")
    router = Router.objects.get()
    subnet = Subnet.objects.get(network=inner)
    do(ana, "/routers/do/add-subnet", item=str(router.uuid), subnet_id=str(subnet.uuid))
    page = text(ana.get(f"/networks/of/{inner.uuid}"))
    assert "10.9.0.0/24" in page
    topology = text(ana.get("/networks/topology"))
    assert topology.count("<line ") == 2
    assert "door" in topology
    made = do(ana, "/networks/do/create", name="bare")
    assert made["Location"] in text(ana.get("/networks/topology"))  # also before it has a subnet
    taken = do(ana, "/floating-ips/do/create", floating_network_id=str(outside.uuid))
    address = FloatingIp.objects.get()
    assert address.address in text(ana.get(taken["Location"]))
    do(ana, "/floating-ips/do/delete", item=str(address.uuid))
    assert not FloatingIp.objects.exists()


def test_pages_have_what_the_api_has(ana: Client, people: Any) -> None:
    outside = lan("outside", people.admin.context(), "203.0.113", is_external=True)
    inner = lan("inner", people.ana.context())
    _, port = plugged(people, inner, "a")
    do(ana, "/routers/do/create", name="edge", gateway=str(outside.uuid))
    do(ana, "/routers/do/add-subnet", item=str(Router.objects.get().uuid), subnet_id=str(inner.subnets.get().uuid))
    do(ana, "/floating-ips/do/create", floating_network_id=str(outside.uuid), port_id=str(port.uuid))
    kinds = {one.id: one for one in BY_ID.values() if one.service == "network"}
    assert kinds.keys() == SEGMENTS.keys()
    for person in (people.ana, people.admin):
        caller, client = person.context(), ApiClient(person.token())
        for ident, kind in kinds.items():
            answer = client.get(f"/network/v2.0/{SEGMENTS[ident]}?limit=100&sort_key=id&sort_dir=desc")
            shown = answer.json()[SEGMENTS[ident].replace("-", "_")]
            page = service_calls.list_items(caller, kind, {"limit": 100, "sort_key": "id", "sort_dir": "desc"})
            assert (page.items, page.has_more) == (shown, False)
            assert shown, kind.id
            first = service_calls.list_items(caller, kind, {"limit": 1, "sort_key": "id", "sort_dir": "desc"})
            assert (first.items, first.has_more) == (shown[:1], len(shown) > 1)
            query = {"limit": 100, "sort_key": "id", "sort_dir": "desc", "marker": shown[0]["id"]}
            assert service_calls.list_items(caller, kind, query).items == shown[1:]
            for one in shown:
                assert service_calls.get_item(caller, kind, one["id"]) == one


def test_option_lists_have_what_fits(ana: Client, people: Any) -> None:
    outside = lan("outside", people.admin.context(), "203.0.113", is_external=True)
    inner = lan("inner", people.ana.context())
    server, port = plugged(people, inner, "a")
    subnet, group = inner.subnets.get(), SecurityGroup.objects.get(name="default", project_id=people.ana.project.id)
    lists = {
        ("subnets/do/create", "network_id"): [str(inner.uuid), str(outside.uuid)],
        ("routers/do/create", "gateway"): ["", str(outside.uuid)],
        ("floating-ips/do/create", "floating_network_id"): [str(outside.uuid)],
        ("floating-ips/do/create", "port_id"): ["", str(port.uuid)],
        ("security-rules/do/create", "remote_group_id"): ["", str(group.uuid)],
        (f"server/do/attach-network?item={server}", "net_id"): [str(inner.uuid)],
        ("snapshot-schedules/do/of-server", "server"): [server],
        ("security-groups/reach", "target"): [server],
    }
    for (path, field), values in lists.items():
        (select,) = re.findall(rf'<select[^>]* name="{field}".*?</select>', text(ana.get(f"/{path}")))
        assert sorted(re.findall('<option value="([^"]*)"', select)) == sorted(values), path
    assert f"/servers/{server}" in text(ana.get("/networks/topology"))
    assert subnet.cidr in text(ana.get("/networks/topology"))


def test_a_router_in_use_is_not_deleted(ana: Client, people: Any) -> None:
    inner = lan("inner", people.ana.context())
    do(ana, "/routers/do/create", name="door")
    router = Router.objects.get()
    do(ana, "/routers/do/add-subnet", item=str(router.uuid), subnet_id=str(inner.subnets.get().uuid))
    refused = ana.post("/routers/do/delete", {"item": str(router.uuid)})
    assert refused.status_code == 409
    assert "Couldn't save" in text(refused)
    assert Router.objects.count() == 1


def test_rules_are_added_at_their_group(ana: Client) -> None:
    do(ana, "/security-groups/do/create", name="web", description="")
    group = SecurityGroup.objects.get(name="web")
    sent = {
        "security_group_id": str(group.uuid),
        "direction": "ingress",
        "ethertype": "IPv4",
        "protocol": "tcp",
        "ports": "8000:8010",
        "remote_ip_prefix": "203.0.113.0/24",
    }
    do(ana, "/security-rules/do/create", **sent)
    rule = SecurityGroupRule.objects.get(group=group, direction="ingress")
    assert (rule.port_range_min, rule.port_range_max) == (8000, 8010)
    assert "ports 8000 to 8010" in text(ana.get(f"/security-groups/of/{group.uuid}"))
    wrong = ana.post("/security-rules/do/create", {**sent, "ports": "99999"})
    assert wrong.status_code == 400
    assert 'value="99999"' in text(wrong)
    assert SecurityGroupRule.objects.filter(group=group, direction="ingress").count() == 1


def test_an_image_is_uploaded_with_its_file(ana: Client) -> None:
    sent = {"name": "mine", "disk_format": "raw", "visibility": "private", "min_disk": "1", "min_ram": "0"}
    file = SimpleUploadedFile("mine.raw", b"x" * 5000)
    answer = ana.post("/images/do/create", {**sent, "file": file})
    assert answer.status_code == 302, text(answer)
    image = Image.objects.get()
    assert (image.status, image.size) == ("active", 5000)
    do(
        ana,
        "/images/do/edit",
        item=str(image.uuid),
        name="ours",
        visibility="private",
        min_disk="2",
        min_ram="",
        protected="yes",
    )
    image.refresh_from_db()
    assert (image.name, image.min_disk_gb, image.is_protected) == ("ours", 2, True)
    assert "The image is protected" in text(ana.get(f"/images/of/{image.uuid}"))
    assert ana.post("/images/do/delete", {"item": str(image.uuid)}).status_code == 403
    assert Image.objects.count() == 1


def test_flavors_are_for_reading(ana: Client) -> None:
    flavors.seed()
    page = text(ana.get("/flavors", {"sort": "memory_mb:desc"}))
    assert page.index(">large<") < page.index(">tiny<")
    assert "/flavors/do/" not in page
    assert "512 MB" in text(ana.get("/flavors/of/2"))


def test_a_credential_shows_its_secret_once(ana: Client) -> None:
    answer = ana.post("/credentials/do/create", {"name": "ci", "role": "reader", "expires_at": "2099-01-31T12:00"})
    assert answer.status_code == 200, text(answer)
    assert "no-store" in answer["Cache-Control"]
    made = ApplicationCredential.objects.get()
    assert [role.name for role in made.roles.all()] == ["reader"]
    assert "Save this secret now" in text(answer)
    page = text(ana.get(f"/credentials/of/{made.id}"))
    assert "2099-01-31 12:00:00 UTC" in page
    assert "the-secret" not in page
    late = ana.post("/credentials/do/create", {"name": "late", "expires_at": "2001-01-31T12:00"})
    assert late.status_code == 400
    assert 'id="field-expires_at" data-wrong' in text(late)
    do(ana, "/credentials/do/delete", item=made.id)
    assert not ApplicationCredential.objects.exists()


def test_server_groups_are_made_and_deleted(ana: Client) -> None:
    do(ana, "/server-groups/do/create", name="apart", policy="anti-affinity", max_server_per_host="2")
    page = text(ana.get("/server-groups"))
    assert "Anti-affinity: on different hosts" in page
    wrong = ana.post("/server-groups/do/create", {"name": "both", "policy": "affinity", "max_server_per_host": "2"})
    assert wrong.status_code == 400


def connecting_host(name: str, guest_network: str = "ovn") -> None:
    """Create a host whose guests have networks on OVN, so that it connects them."""
    factories.host(name)
    ComputeNode.objects.using("cell1").filter(host=name).update(
        report={"capabilities": {"guest_network": guest_network}}
    )


def test_connectivity_checks_follow_the_security_group_rules(ana: Client, people: Any) -> None:
    connecting_host("sim-1")
    context = people.ana.context()
    network = lan("inner", context)
    web = security_groups.create_group(context, {"name": "web"})
    a, _ = plugged(people, network, "a")
    b, _ = plugged(people, network, "b", str(web.uuid))
    closed = reachability.ask(context, a, b, "tcp", "443")
    assert [leg.is_open for leg in closed.legs] == [True, True, False, True]
    assert "No rule of web allows tcp to port 443" in closed.legs[2].why
    default = SecurityGroup.objects.get(name="default", project_id=context.project_id)
    requested = SecurityGroupRuleCreate(
        "ingress", "IPv4", "tcp", 440, 450, remote_group_id=str(default.uuid), group_id=str(web.uuid)
    )
    security_groups.create_rule(context, requested)
    found = reachability.ask(context, a, b, "tcp", "443")
    assert found.is_open
    assert "ports 440 to 450, from servers of default" in found.legs[2].why
    assert not reachability.ask(context, a, b, "tcp", "451").is_open
    assert not reachability.ask(context, a, b, "udp", "443").is_open
    outside = reachability.ask(context, "203.0.113.9", b, "tcp", "443")
    assert "No floating IP leads to" in outside.legs[0].why
    page = ana.get("/security-groups/reach", {"source": a, "target": b, "protocol": "tcp", "port": "443"})
    assert "a can reach b" in text(page)


@pytest.mark.parametrize(
    ("start", "ethertype", "protocol", "is_open"),
    [
        ("10.9.0", "IPv4", "icmp", True),
        ("10.9.0", "IPv4", "1", True),
        ("10.9.0", "IPv4", "58", False),
        ("fd00:9::", "IPv6", "icmp", True),
        ("fd00:9::", "IPv6", "icmpv6", True),
        ("fd00:9::", "IPv6", "ipv6-icmp", True),
        ("fd00:9::", "IPv6", "58", True),
        ("fd00:9::", "IPv6", "1", False),
    ],
)
def test_a_protocol_has_names_and_a_number(
    people: Any, start: str, ethertype: str, protocol: str, is_open: bool
) -> None:
    factories.cells()
    connecting_host("sim-1")
    context = people.ana.context()
    if ethertype == "IPv6":
        network = factories.network("inner", context, f"{start}/64")
        pools = [{"start": f"{start}10", "end": f"{start}250"}]
        network.subnets.update(ip_version=6, gateway_ip=f"{start}1", allocation_pools=pools)
    else:
        network = lan("inner", context, start)
    web = security_groups.create_group(context, {"name": "web"})
    security_groups.create_rule(
        context, SecurityGroupRuleCreate("ingress", ethertype, protocol, group_id=str(web.uuid))
    )
    a, _ = plugged(people, network, "a")
    b, _ = plugged(people, network, "b", str(web.uuid))
    assert reachability.ask(context, a, b, "icmp", "").is_open == is_open


@pytest.mark.parametrize("guest_network", ["qemu", "none", ""])
def test_a_host_that_connects_no_ports_makes_them_unreachable_whatever_the_rules_say(
    ana: Client, people: Any, guest_network: str
) -> None:
    connecting_host("sim-1", guest_network)
    network = lan("inner", people.ana.context())
    a, _ = plugged(people, network, "a")
    b, _ = plugged(people, network, "b")
    found = reachability.ask(people.ana.context(), a, b, "icmp", "")
    assert [leg.is_open for leg in found.legs] == [True, True, True, False]
    assert not found.is_open
    page = text(ana.get("/security-groups/reach", {"source": a, "target": b, "protocol": "icmp"}))
    assert "a cannot reach b" in page
    assert "Not carried here" in page


@pytest.mark.parametrize(("other", "is_open"), [("ovn", True), ("qemu", False)])
def test_ovn_connects_servers_on_two_hosts(ana: Client, people: Any, other: str, is_open: bool) -> None:
    connecting_host("sim-1", "ovn")
    connecting_host("sim-2", other)
    network = lan("inner", people.ana.context())
    a, _ = plugged(people, network, "a")
    b, _ = plugged(people, network, "b")
    Instance.objects.using("cell1").filter(uuid=b).update(host="sim-2", node="sim-2")
    found = reachability.ask(people.ana.context(), a, b, "icmp", "")
    assert found.is_open == is_open
    assert found.legs[-1].why == (
        "The servers are on two hosts, which are connected."
        if is_open
        else "Not carried here: the host of b doesn't connect its servers to each other."
    )


@pytest.mark.parametrize(("guest_network", "is_open"), [("ovn", True), ("qemu", False)])
def test_ovn_carries_traffic_through_a_floating_ip(
    ana: Client, people: Any, settings: Any, guest_network: str, is_open: bool
) -> None:
    settings.NOVELLA_OVN_NORTHBOUND = "unix:/run/ovn/ovnnb_db.sock"
    connecting_host("sim-1", guest_network)
    context = people.ana.context()
    outside = lan("outside", people.admin.context(), "203.0.113", is_external=True)
    inner = lan("inner", context)
    web = security_groups.create_group(context, {"name": "web"})
    server, port = plugged(people, inner, "a", str(web.uuid))
    rule = SecurityGroupRuleCreate("ingress", "IPv4", "tcp", 80, 80, group_id=str(web.uuid))
    security_groups.create_rule(context, rule)
    do(ana, "/routers/do/create", name="edge", gateway=str(outside.uuid))
    router = Router.objects.get()
    do(ana, "/routers/do/add-subnet", item=str(router.uuid), subnet_id=str(inner.subnets.get().uuid))
    do(ana, "/floating-ips/do/create", floating_network_id=str(outside.uuid), port_id=str(port.uuid))
    found = reachability.ask(context, "198.51.100.7", server, "tcp", "80")
    assert [leg.is_open for leg in found.legs] == [True, True, is_open]
    assert "Not carried here" not in text(ana.get("/floating-ips"))


def test_a_floating_ip_is_shown_at_its_server_with_what_it_does_not_carry(ana: Client, people: Any) -> None:
    connecting_host("sim-1")
    context = people.ana.context()
    outside = lan("outside", people.admin.context(), "203.0.113", is_external=True)
    inner = lan("inner", context)
    server, port = plugged(people, inner, "a")
    Port.objects.filter(pk=port.pk).update(is_plugged=True, binding_host="sim-1")
    do(ana, "/routers/do/create", name="edge", gateway=str(outside.uuid))
    router = Router.objects.get()
    do(ana, "/routers/do/add-subnet", item=str(router.uuid), subnet_id=str(inner.subnets.get().uuid))
    taken = do(ana, "/floating-ips/do/create", floating_network_id=str(outside.uuid), port_id=str(port.uuid))
    address = FloatingIp.objects.get().address
    for path in ("/servers", f"/servers/{server}", f"/servers/{server}/network"):
        assert address in text(ana.get(path)), path
    for path in ("/floating-ips", taken["Location"], "/routers", f"/routers/of/{router.uuid}"):
        assert "Not carried here" in text(ana.get(path)), path
    open_to_all = SecurityGroupRuleCreate(
        "ingress", "IPv4", "tcp", 22, 22, group_id=str(port.security_groups.get().uuid)
    )
    security_groups.create_rule(context, open_to_all)
    found = reachability.ask(context, "198.51.100.7", server, "tcp", "22")
    assert [leg.is_open for leg in found.legs] == [True, True, False]
    assert not found.is_open


def test_unconnected_networks_are_reported(people: Any) -> None:
    factories.cells()
    context = people.ana.context()
    a, _ = plugged(people, lan("one", context, "10.8.0"), "a")
    b, _ = plugged(people, lan("two", context), "b")
    assert "No router connects" in reachability.ask(context, a, b, "icmp", "").legs[1].why


@pytest.mark.parametrize(("protocol", "port"), [("tcp", ""), ("tcp", "0"), ("tcp", "65536"), ("gre", "1")])
def test_invalid_connectivity_checks_are_refused(ana: Client, people: Any, protocol: str, port: str) -> None:
    server = factories.instance(people.ana.context(), "a")
    with pytest.raises(Invalid):
        reachability.ask(people.ana.context(), str(server.uuid), str(server.uuid), protocol, port)
    answer = ana.get("/security-groups/reach", {"target": str(server.uuid), "protocol": protocol, "port": port})
    assert answer.status_code == 400


def test_servers_of_other_projects_cannot_be_queried(ana: Client, people: Any) -> None:
    server = factories.instance(people.chi.context(), "secret-7")
    with pytest.raises(NotFound):
        reachability.ask(people.ana.context(), str(server.uuid), str(server.uuid), "icmp", "")
    assert "secret-7" not in text(ana.get("/security-groups/reach", {"target": str(server.uuid), "protocol": "icmp"}))
