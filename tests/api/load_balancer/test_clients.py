"""Load balancers through their real client: the commands of `openstack`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from conductor.network import balancer_states
from conductor.network.models import LoadBalancer
from tests.openstack_command import OpenStackCommand
from tests.people import PASSWORD

Cli = Callable[..., Any]


@pytest.fixture
def cli(url: str, people: Any, settings: Any) -> Iterator[Cli]:
    """Runs commands as ana; returns each output, parsed if it is JSON."""
    settings.NOVELLA_OVN_NORTHBOUND = "unix:/none.sock"
    person = {"USERNAME": "ana", "PROJECT_NAME": "shop", "PASSWORD": PASSWORD, "AUTH_URL": f"{url}/identity"}
    signed_in = {f"OS_{name}": value for name, value in person.items()}
    signed_in |= {"OS_USER_DOMAIN_NAME": "Default", "OS_PROJECT_DOMAIN_NAME": "Default"}
    command = OpenStackCommand()

    def run(*lines: str, fails: bool = False) -> Any:
        answers = []
        for line in lines:
            code, out, err = command.run(line.split(), signed_in)
            assert (code != 0) == fails, f"openstack {line}\n{out}\n{err}"
            answers.append(json.loads(out) if out.startswith(("[", "{")) else out + err)
        return answers

    yield run
    command.close()


@pytest.fixture
def made(cli: Cli) -> list[Any]:
    """A load balancer `web` with a listener `http`, a pool `webs`, a member `one` and a health monitor `check`."""
    found: list[Any] = cli(
        "network create inner",
        "subnet create --network inner --subnet-range 10.0.0.0/24 sub",
        "loadbalancer create --name web --vip-subnet-id sub --vip-address 10.0.0.100 -f json",
        "loadbalancer listener create --name http --protocol TCP --protocol-port 80 web -f json",
        "loadbalancer pool create --name webs --protocol TCP --lb-algorithm SOURCE_IP_PORT --listener http -f json",
        "loadbalancer member create --name one --address 10.0.0.11 --protocol-port 8080 --subnet-id sub webs -f json",
        "loadbalancer healthmonitor create --name check --type TCP --delay 5 --timeout 3 --max-retries 2 webs -f json",
    )
    return found[2:]


def test_commands_create_and_show_a_load_balancer(cli: Cli, made: list[Any], people: Any) -> None:
    balancer, listener, pool, member, checks = made
    assert (balancer["vip_address"], balancer["provisioning_status"]) == ("10.0.0.100", "PENDING_CREATE")
    assert (listener["loadbalancers"], listener["protocol_port"]) == ([{"id": balancer["id"]}], 80)
    assert (pool["listeners"], pool["lb_algorithm"]) == ([{"id": listener["id"]}], "SOURCE_IP_PORT")
    assert (member["address"], member["operating_status"]) == ("10.0.0.11", "NO_MONITOR")
    assert (checks["pools"], checks["delay"]) == ([{"id": pool["id"]}], 5)
    written = dict(LoadBalancer.objects.values_list("uuid", "revision_number"))
    balancer_states.record_written({str(uuid): revision for uuid, revision in written.items()})

    shown = cli(
        "loadbalancer list -f json",
        "loadbalancer listener list -f json",
        "loadbalancer pool list -f json",
        "loadbalancer member list webs -f json",
        "loadbalancer healthmonitor list -f json",
        "loadbalancer status show web",
        "loadbalancer provider list -f json",
        f"loadbalancer quota show {people.ana.project.id} -f json",
    )

    assert [(row["name"], row["provisioning_status"]) for row in shown[0]] == [("web", "ACTIVE")]
    assert [row["name"] for rows in shown[1:5] for row in rows] == ["http", "webs", "one", "check"]
    assert shown[5]["loadbalancer"]["listeners"][0]["pools"][0]["members"][0]["address"] == "10.0.0.11"
    assert shown[6][0]["name"] == "ovn"
    assert (shown[7]["load_balancer"], shown[7]["health_monitor"]) == (10, 50)


@pytest.mark.usefixtures("made")
def test_commands_change_and_delete_a_load_balancer(cli: Cli) -> None:
    changed = cli(
        "loadbalancer set --name front --disable web",
        "loadbalancer listener set --name plain http",
        "loadbalancer pool set --name all webs",
        "loadbalancer member set --name first all one",
        "loadbalancer healthmonitor set --delay 9 check",
        "loadbalancer show front -f json",
        "loadbalancer listener show plain -f json",
        "loadbalancer pool show all -f json",
        "loadbalancer member show all first -f json",
        "loadbalancer healthmonitor show check -f json",
    )[5:]
    assert changed[0]["operating_status"] == "OFFLINE"
    assert [row["name"] for row in changed[1:4]] == ["plain", "all", "first"]
    assert changed[4]["delay"] == 9
    (refused,) = cli("loadbalancer delete front", fails=True)
    assert "it has children" in refused
    cli(
        "loadbalancer healthmonitor delete check",
        "loadbalancer member delete all first",
        "loadbalancer pool delete all",
        "loadbalancer listener delete plain",
        "loadbalancer listener create --protocol UDP --protocol-port 53 front",
        "loadbalancer delete --cascade --wait front",
    )
    assert cli("loadbalancer list -f json", "loadbalancer listener list -f json", "port list -f json") == [[], [], []]


def test_features_that_ovn_does_not_support_are_refused_by_name(cli: Cli) -> None:
    cli("network create inner", "subnet create --network inner --subnet-range 10.0.0.0/24 sub")
    cli("loadbalancer create --name web --vip-subnet-id sub")

    refused = cli(
        "loadbalancer create --vip-subnet-id sub --provider amphora",
        "loadbalancer listener create --protocol HTTP --protocol-port 80 web",
        "loadbalancer pool create --protocol TCP --lb-algorithm ROUND_ROBIN --loadbalancer web",
        fails=True,
    )

    for text, words in zip(refused, ("ovn", "TCP", "SOURCE_IP_PORT"), strict=True):
        assert words in text
        assert "400" in text
