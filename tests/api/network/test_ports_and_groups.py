"""Ports and security groups of the Network API: exact codes, bodies and what is left after a refusal."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from conductor.network.models import AddressAllocation, Port, SecurityGroup, SecurityGroupRule
from conductor.network.ovn import topology_rows
from tests.api.network.calls import V2, fault, ids, make, make_network, plug


def test_port_life(api_client: Any, people: Any) -> None:
    ana = api_client("ana")
    network_id, subnet_id = make_network(ana)
    body = make(ana, "ports", network_id=network_id, name="plug", admin_state_up=True)
    assert body["fixed_ips"] == [{"subnet_id": subnet_id, "ip_address": "10.0.0.2"}]
    assert body["mac_address"].startswith("fa:16:3e:")
    assert (body["status"], body["device_id"], body["device_owner"]) == ("DOWN", "", "")
    default = SecurityGroup.objects.get(project_id=people.ana.project.id, name="default")
    assert body["security_groups"] == [str(default.uuid)]
    assert "binding:host_id" not in body
    path = f"{V2}/ports/{body['id']}"
    assert api_client("admin").get(path).json()["port"]["binding:host_id"] == ""
    changed = ana.put(path, {"port": {"name": "socket", "fixed_ips": [{"ip_address": "10.0.0.77"}], "device_id": "x"}})
    assert changed.status_code == 200
    shown = ana.get(path).json()["port"]
    assert changed.json()["port"] == shown
    assert shown["fixed_ips"] == [{"subnet_id": subnet_id, "ip_address": "10.0.0.77"}]
    assert (shown["name"], shown["device_id"], shown["mac_address"]) == ("socket", "x", body["mac_address"])
    assert fault(ana.delete(f"{V2}/networks/{network_id}")) == (409, "NetworkInUse")
    assert fault(ana.delete(f"{V2}/subnets/{subnet_id}")) == (409, "SubnetInUse")
    assert ana.delete(path).status_code == 204
    assert fault(ana.delete(path)) == (404, "PortNotFound")
    assert AddressAllocation.objects.count() == 0
    assert ana.delete(f"{V2}/networks/{network_id}").status_code == 204


@pytest.mark.parametrize(
    ("values", "status", "kind"),
    [
        ({"fixed_ips": [{"ip_address": "10.0.0.2"}]}, 409, "IpAddressAlreadyAllocated"),
        ({"fixed_ips": [{"ip_address": "10.9.0.2"}]}, 400, "InvalidIpForSubnet"),
        ({"fixed_ips": [{"ip_address": "10.0.0.255"}]}, 400, "InvalidIpForSubnet"),
        ({"fixed_ips": [{"ip_address": "nine"}]}, 400, "Invalid"),
        ({"fixed_ips": [{}]}, 400, "Invalid"),
        ({"fixed_ips": [{"subnet_id": str(uuid4())}]}, 404, "SubnetNotFound"),
        ({"mac_address": "nonsense"}, 400, "Invalid"),
        ({"mac_address": "fa:16:3e:00:00:01"}, 409, "MacAddressInUse"),
        ({"security_groups": [str(uuid4())]}, 404, "SecurityGroupNotFound"),
        ({"security_groups": ["x", "x"]}, 400, "Invalid"),
        ({"binding:host_id": "host-1"}, 403, "PolicyNotAuthorized"),
        ({"binding:vnic_type": "wireless"}, 400, "Invalid"),
        ({"color": "red"}, 400, "Invalid"),
        ({"network_id": str(uuid4())}, 404, "NetworkNotFound"),
        ({"network_id": "no-uuid"}, 400, "Invalid"),
    ],
)
def test_wrong_ports_make_nothing(api_client: Any, values: Any, status: int, kind: str) -> None:
    ana = api_client("ana")
    network_id, _ = make_network(ana)
    make(ana, "ports", network_id=network_id, mac_address="FA:16:3E:00:00:01")
    answer = ana.post(f"{V2}/ports", {"port": {"network_id": network_id, **values}})
    assert fault(answer) == (status, kind)
    assert (Port.objects.count(), AddressAllocation.objects.count()) == (1, 1)
    assert Port.objects.get().mac_address == "fa:16:3e:00:00:01"


def test_an_exhausted_subnet_is_409(api_client: Any) -> None:
    ana = api_client("ana")
    network_id, _ = make_network(ana, "10.0.0.0/30")
    make(ana, "ports", network_id=network_id)
    answer = ana.post(f"{V2}/ports", {"port": {"network_id": network_id}})
    assert fault(answer) == (409, "IpAddressGenerationFailure")
    assert Port.objects.count() == 1


def test_plugged_ports_stay(api_client: Any, people: Any) -> None:
    ana = api_client("ana")
    network_id, _ = make_network(ana)
    instance = str(uuid4())
    made = plug(people.ana, network_id, instance)[0]["port_uuid"]
    path = f"{V2}/ports/{made}"
    shown = ana.get(path).json()["port"]
    assert (shown["device_id"], shown["device_owner"], shown["status"]) == (instance, "compute:az-1", "ACTIVE")
    assert fault(ana.delete(path)) == (409, "PortInUse")
    for change in ({"device_id": ""}, {"fixed_ips": []}, {"mac_address": "fa:16:3e:00:00:02"}):
        assert fault(ana.put(path, {"port": change})) == (409, "PortInUse")
    assert ana.get(path).json()["port"] == shown
    assert ana.put(path, {"port": {"name": "renamed"}}).status_code == 200


def test_port_filters(api_client: Any) -> None:
    ana = api_client("ana")
    network_id, subnet_id = make_network(ana)
    one = make(ana, "ports", network_id=network_id, name="one", device_id="d1")["id"]
    two = make(ana, "ports", network_id=network_id, name="two")["id"]
    cases: dict[str, set[str]] = {
        "": {one, two},
        "name=one": {one},
        "name=one&name=two": {one, two},
        "device_id=d1": {one},
        "device_id=": {two},
        f"id={one}": {one},
        "id=no-uuid": set(),
        f"network_id={network_id}": {one, two},
        f"network_id={uuid4()}": set(),
        "fixed_ips=ip_address=10.0.0.3": {two},
        f"fixed_ips=subnet_id={subnet_id}&fixed_ips=ip_address=10.0.0.2": {one},
        "fixed_ips=ip_address_substr=10.0": {one, two},
        "fixed_ips=ip_address=nine": set(),
        "status=DOWN": {one, two},
        "status=ACTIVE": set(),
        "admin_state_up=True": {one, two},
        "color=red&tenant_idx=5": {one, two},
        "binding:host_id=host-9": {one, two},
    }
    for query, expected in cases.items():
        assert ids(ana.get(f"{V2}/ports?{query}"), "ports") == expected, query
    trimmed = ana.get(f"{V2}/ports?fields=id&fields=name&name=one").json()["ports"]
    assert trimmed == [{"id": one, "name": "one"}]
    assert ana.get(f"{V2}/ports/{one}?fields=name").json() == {"port": {"name": "one"}}


def test_every_project_has_a_default_group(api_client: Any, people: Any) -> None:
    ana = api_client("ana")
    groups = ana.get(f"{V2}/security-groups").json()["security_groups"]
    assert [group["name"] for group in groups] == ["default"]
    rules = [
        (rule["direction"], rule["ethertype"], rule["remote_group_id"]) for rule in groups[0]["security_group_rules"]
    ]
    own = groups[0]["id"]
    assert sorted(rules, key=str) == sorted(
        [
            ("egress", "IPv4", None),
            ("egress", "IPv6", None),
            ("ingress", "IPv4", own),
            ("ingress", "IPv6", own),
        ],
        key=str,
    )
    assert fault(ana.delete(f"{V2}/security-groups/{own}")) == (409, "SecurityGroupCannotRemoveDefault")
    again = ana.post(f"{V2}/security-groups", {"security_group": {"name": "default"}})
    assert again.status_code == 409
    assert SecurityGroup.objects.count() == 1


def test_security_groups_and_rules(api_client: Any) -> None:
    ana = api_client("ana")
    group = make(ana, "security-groups", name="web", description="front")
    assert [rule["direction"] for rule in group["security_group_rules"]] == ["egress", "egress"]
    wanted = {
        "security_group_id": group["id"],
        "direction": "ingress",
        "ethertype": "IPv4",
        "protocol": "TCP",
        "port_range_min": "22",
        "port_range_max": 22,
        "remote_ip_prefix": "0.0.0.0/0",
    }
    rule = make(ana, "security-group-rules", **wanted)
    assert (rule["protocol"], rule["port_range_min"], rule["remote_ip_prefix"]) == ("tcp", 22, "0.0.0.0/0")
    again = ana.post(f"{V2}/security-group-rules", {"security_group_rule": wanted})
    assert fault(again) == (409, "SecurityGroupRuleExists")
    assert SecurityGroupRule.objects.filter(group__name="web").count() == 3
    assert ids(ana.get(f"{V2}/security-group-rules?direction=ingress&protocol=tcp"), "security_group_rules") == {
        rule["id"]
    }
    assert ana.delete(f"{V2}/security-group-rules/{rule['id']}").status_code == 204
    assert fault(ana.get(f"{V2}/security-group-rules/{rule['id']}")) == (404, "SecurityGroupRuleNotFound")
    path = f"{V2}/security-groups/{group['id']}"
    assert ana.put(path, {"security_group": {"name": "front"}}).json()["security_group"]["name"] == "front"
    network_id, _ = make_network(ana)
    port_id = make(ana, "ports", network_id=network_id, security_groups=[group["id"]])["id"]
    assert fault(ana.delete(path)) == (409, "SecurityGroupInUse")
    ana.delete(f"{V2}/ports/{port_id}")
    assert ana.delete(path).status_code == 204


@pytest.mark.parametrize(
    "values",
    [
        {"direction": "sideways"},
        {"ethertype": "IPv5"},
        {"port_range_min": 5},
        {"protocol": "tcp", "port_range_min": 9, "port_range_max": 5},
        {"protocol": "tcp", "port_range_min": 0, "port_range_max": 5},
        {"protocol": "tcp", "port_range_min": 1, "port_range_max": 65536},
        {"protocol": "icmp", "port_range_max": 5},
        {"protocol": "icmp", "port_range_min": 256},
        {"remote_ip_prefix": "nonsense"},
        {"remote_ip_prefix": "fd00::/64"},
        {"remote_ip_prefix": "10.0.0.0/8", "remote_group_id": "own"},
    ],
)
def test_wrong_rules_make_nothing(api_client: Any, values: dict[str, Any]) -> None:
    ana = api_client("ana")
    group_id = make(ana, "security-groups", name="web")["id"]
    values = {name: group_id if value == "own" else value for name, value in values.items()}
    body = {"security_group_id": group_id, "direction": "ingress", **values}
    assert ana.post(f"{V2}/security-group-rules", {"security_group_rule": body}).status_code == 400
    assert SecurityGroupRule.objects.filter(group__name="web").count() == 2


RULE = {"direction": "ingress", "protocol": "tcp", "port_range_min": 22, "port_range_max": 22}


@pytest.mark.parametrize(
    ("sent", "normalized", "same"),
    [
        ("10.177.8.5/24", "10.177.8.0/24", "10.177.8.0/24"),
        ("10.177.8.5", "10.177.8.5/32", "10.177.8.5/32"),
        ("2001:DB8::7/32", "2001:db8::/32", "2001:db8::/32"),
    ],
)
def test_the_range_of_a_rule_is_kept_as_it_was_sent(api_client: Any, sent: str, normalized: str, same: str) -> None:
    ana = api_client("ana")
    values = RULE | {"ethertype": "IPv6" if ":" in sent else "IPv4"}
    values["security_group_id"] = make(ana, "security-groups", name="ssh")["id"]
    rule = make(ana, "security-group-rules", **values, remote_ip_prefix=sent)
    shown = ana.get(f"{V2}/security-group-rules/{rule['id']}").json()["security_group_rule"]
    for one in (rule, shown):
        assert (one["remote_ip_prefix"], one["normalized_cidr"]) == (sent, normalized)
    assert ids(ana.get(f"{V2}/security-group-rules?remote_ip_prefix={sent}"), "security_group_rules") == {rule["id"]}
    again = {"security_group_rule": values | {"remote_ip_prefix": same}}
    assert fault(ana.post(f"{V2}/security-group-rules", again)) == (409, "SecurityGroupRuleExists")


def test_the_addresses_of_pairs_are_kept_as_they_were_sent(api_client: Any) -> None:
    ana = api_client("ana")
    network_id, _ = make_network(ana)
    sent = ["10.7.0.1/16", "10.7.0.9", "2001:DB8::7/32", "2001:DB8::9"]
    port = make(ana, "ports", network_id=network_id, allowed_address_pairs=[{"ip_address": one} for one in sent])
    path = f"{V2}/ports/{port['id']}"
    assert [pair["ip_address"] for pair in port["allowed_address_pairs"]] == sent
    changed = ana.put(path, {"port": {"allowed_address_pairs": [{"ip_address": one} for one in sent[1:]]}})
    assert [pair["ip_address"] for pair in changed.json()["port"]["allowed_address_pairs"]] == sent[1:]
    twice = [{"ip_address": "10.7.0.1/16"}, {"ip_address": "10.7.0.2/16"}]
    refused = ana.put(path, {"port": {"allowed_address_pairs": twice}})
    assert fault(refused) == (400, "DuplicateAddressPairInRequest")
    (projected,) = topology_rows.read().ports
    assert {pair.ip_address for pair in projected.pairs} >= {"10.7.0.9", "2001:db8::/32", "2001:db8::9"}
