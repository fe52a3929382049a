"""Bandwidth limits of QoS policies, as hosts apply them."""

from __future__ import annotations

import re
import subprocess
from typing import Any

from conductor.network import operations, port_operations, qos
from conductor.network.port_operations import PortCreate
from conductor.services.networks.ovn_projection import OvnProjection
from tests.fixtures.ports import make_network, plug
from tests.services import ovn
from tests.waiting import wait_until


def rates(host: ovn.Host) -> set[int]:
    """Return the rates, in kbit/s, of the host's meters."""
    bridge = f"unix:{host.folder}/br-int.mgmt"
    done = subprocess.run(
        ["ovs-ofctl", "-O", "OpenFlow15", "dump-meters", bridge], check=True, capture_output=True, text=True
    )
    return {int(rate) for rate in re.findall(r"rate=(\d+)", done.stdout)}


def test_hosts_limit_the_bandwidth_of_guests(lab: ovn.Lab, people: Any, projection: OvnProjection) -> None:
    host = lab.add_host("h1")
    ana = people.ana.context()
    network = make_network(people.ana)
    slow, slower = (str(qos.create_policy(ana, {"name": name}).uuid) for name in ("slow", "slower"))
    qos.create_limit(ana, slow, {"max_kbps": 7000, "direction": "ingress"})
    rule = qos.create_limit(ana, slower, {"max_kbps": 5000, "max_burst_kbps": 500})
    operations.update_network(ana, network, {"qos_policy": slow})
    made = [
        port_operations.create_port(ana, PortCreate(network, values={"qos_policy": policy} if policy else {}))
        for policy in (None, slower)
    ]
    guests = []
    for number, port in enumerate(made):
        plug(people.ana, [{"network_id": network, "port_id": str(port.uuid)}], f"guest-{number}", host="h1")
        projection.carry_out()
        address = port.addresses.get().ip_address
        guests.append(lab.add_guest(host, str(port.uuid), port.mac_address, f"{address}/24"))

    wait_until("the host limits both guests", lambda: rates(host) == {7000, 5000})
    assert guests[0].pings(made[1].addresses.get().ip_address)
    qos.update_limit(ana, slower, str(rule.uuid), {"max_kbps": 3000})
    operations.update_network(ana, network, {"qos_policy": None})
    projection.carry_out()
    wait_until("the host has the new limits", lambda: rates(host) == {3000})
    assert guests[1].pings(made[0].addresses.get().ip_address)
    assert lab.flow_warnings() == []
