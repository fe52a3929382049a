"""Fixtures of the compute scenarios: a cloud with two hosts, and servers in it without builds."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from conductor.cell_db.models import ConsoleAddress, ConsoleLog, InstanceFault
from conductor.core.compute_driver import NetworkPort
from conductor.db.transactions import database_now
from tests.compute_rows import Cloud, make_cloud, make_host, make_instance

PORT = NetworkPort(
    port_uuid="00000000-0000-0000-0000-00000000000a",
    network_name="private",
    mac_address="fa:16:3e:00:00:01",
    ip_address="10.64.0.9",
    prefix_length=20,
    cidr="10.64.0.0/20",
)


@pytest.fixture
def cloud(people: Any) -> Cloud:
    made = make_cloud(people)
    make_host("cell1", "sim-1-01")
    make_host("cell2", "sim-2-01", zone="az-2")
    return made


@pytest.fixture
def kept(cloud: Cloud) -> dict[str, str]:
    """Names for scenarios: $image, $network, $web (ana's, active), $broken (ana's, in error), $foreign (chi's)."""
    ana, chi = cloud.people.ana.context(), cloud.people.chi.context()
    web = make_instance(
        ana, "cell1", "web", host="sim-1-01", addresses=[asdict(PORT)], security_groups=["default"], metadata={"a": "b"}
    )
    broken = make_instance(ana, "cell2", "broken", vm_state="error", power_state=0)
    foreign = make_instance(chi, "cell2", "foreign", host="sim-2-01")
    now = {"created_at": database_now()}
    InstanceFault.objects.using("cell2").create(instance_uuid=broken.uuid, message="no luck", details="inside", **now)
    ConsoleLog.objects.using("cell1").create(
        instance_uuid=web.uuid, host="sim-1-01", text="one\ntwo\nthree\n", updated_at=database_now()
    )
    address = {"address": "10.0.0.7", "tcp_port": 7000, "fingerprint": "5d" * 32, "key": "secret"}
    ConsoleAddress.objects.using("cell1").create(host="sim-1-01", updated_at=database_now(), **address)
    return {
        "project": ana.project_id,
        "image": str(cloud.image.uuid),
        "network": str(cloud.network.uuid),
        "web": str(web.uuid),
        "broken": str(broken.uuid),
        "foreign": str(foreign.uuid),
        "nothing": "99999999-9999-9999-9999-999999999999",
        "public_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB5i6Sd4yHAbcfhVJnYFx+0C0jqwWqQmjwg0vSyVpdNP ana@laptop",
    }
