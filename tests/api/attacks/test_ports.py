"""Ports that name devices of other projects: a device has the ports that its own project gave it."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.network.models import Port
from tests import factories
from tests.api.network.calls import V2, fault, ids, make, make_network

INTERFACE = "network:router_interface"


@pytest.fixture
def router(api_client: Any) -> str:
    """A router of ana's project, on one subnet of it."""
    ana = api_client("ana")
    _, subnet_id = make_network(ana)
    uuid: str = make(ana, "routers", name="way")["id"]
    assert ana.put(f"{V2}/routers/{uuid}/add_router_interface", {"subnet_id": subnet_id}).status_code == 200
    return uuid


def interfaces(admin: Any, router: str) -> set[str]:
    return ids(admin.get(f"{V2}/ports?device_id={router}"), "ports")


@pytest.mark.parametrize("owner", [INTERFACE, "network:router_gateway", "network:floatingip"])
def test_no_port_becomes_an_interface_of_anothers_router(api_client: Any, router: str, owner: str) -> None:
    chi, admin = api_client("chi"), api_client("admin")
    network_id, _ = make_network(chi, "10.2.0.0/24")
    before = interfaces(admin, router)
    requested = {"network_id": network_id, "device_owner": owner, "device_id": router}
    assert fault(chi.post(f"{V2}/ports", {"port": requested})) == (409, "DeviceIDNotOwnedByTenant")
    labelled = make(chi, "ports", network_id=network_id, device_id=router)["id"]  # no more than a label
    owned = make(chi, "ports", network_id=network_id, device_owner=owner, device_id="x")["id"]
    for port_id, change in (
        (labelled, {"device_owner": owner}),
        (owned, {"device_id": router}),
        (owned, {"device_id": router, "device_owner": owner}),
    ):
        assert fault(chi.put(f"{V2}/ports/{port_id}", {"port": change})) == (409, "DeviceIDNotOwnedByTenant")
    assert interfaces(admin, router) == before | {labelled}
    assert Port.objects.filter(device_id=router, device_owner=owner).exclude(uuid__in=before).count() == 0


def test_a_port_of_another_projects_router_is_kept_without_naming_the_router(api_client: Any) -> None:
    ana, admin = api_client("ana"), api_client("admin")
    network_id, _ = make_network(ana)
    router = make(admin, "routers", name="theirs")["id"]
    port_id = make(ana, "ports", network_id=network_id)["id"]
    assert admin.put(f"{V2}/routers/{router}/add_router_interface", {"port_id": port_id}).status_code == 200
    path = f"{V2}/ports/{port_id}"
    for refused in (ana.delete(path), ana.put(path, {"port": {"device_id": ""}})):
        assert fault(refused) == (409, "ServicePortInUse")
        assert router not in refused.json()["NeutronError"]["message"]
    reported = admin.delete(path)
    assert (fault(reported), router in reported.json()["NeutronError"]["message"]) == ((409, "ServicePortInUse"), True)
    assert Port.objects.get(uuid=port_id).device_id == router


@pytest.mark.parametrize("owner", ["", "compute:az-1", "network:dhcp"])
def test_no_port_names_anothers_server_as_its_device(people: Any, api_client: Any, owner: str) -> None:
    ana, chi = api_client("ana"), api_client("chi")
    factories.cells()
    server = str(factories.instance(people.ana.context(), "web-1").uuid)
    network_id, _ = make_network(chi, "10.2.0.0/24")
    wanted = {"network_id": network_id, "device_owner": owner}
    for device in (server, server.upper()):
        assert fault(chi.post(f"{V2}/ports", {"port": {**wanted, "device_id": device}})) == (404, "DeviceNotFound")
    port_id = make(chi, "ports", **wanted)["id"]
    assert fault(chi.put(f"{V2}/ports/{port_id}", {"port": {"device_id": server}})) == (404, "DeviceNotFound")
    assert not Port.objects.filter(device_id__iexact=server).exists()
    own_network, _ = make_network(ana)
    assert make(ana, "ports", network_id=own_network, device_id=server)["device_id"] == server
    assert make(chi, "ports", **wanted, device_id="label")["device_id"] == "label"
