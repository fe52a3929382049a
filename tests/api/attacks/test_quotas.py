"""A member who makes rows without end, and one who takes the addresses of everybody."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import pytest
from django.apps import apps
from django.db import connections

from conductor import row_limits
from conductor.network import quotas as network_quotas
from conductor.network.models import AddressAllocation, Port
from tests.api.identity.test_oauth1 import Program, exchanged, let, program, requested
from tests.api.network.calls import V2, fault, make, make_network
from tests.api.volume.test_resources import NEWEST, ROOT, made, settled, storage, volume

__all__ = ["program", "storage"]

number = count()
Attempt = Callable[[], Any]


def _one_more(kind: str, api_client: Any, people: Any, program: Program) -> Attempt:
    """How ana makes one more row of a kind."""
    ana, user = api_client("ana"), f"/identity/v3/users/{people.ana.user.id}"
    if kind == "OAuth request tokens":
        headers = {"Requested-Project-Id": people.ana.project.id}
        return lambda: program.ask("/identity/v3/OS-OAUTH1/request_token", oauth={"oauth_callback": "oob"}, **headers)  # type: ignore[arg-type]
    if kind == "OAuth access tokens":

        def access() -> Any:
            request = requested(program, people)
            return exchanged(
                program, request, let(api_client, request, {"name": "reader"}).json()["token"]["oauth_verifier"]
            )

        return access
    if kind == "image members":
        image = ana.post("/image/v2/images", {"name": "mine", "visibility": "shared"}).json()["id"]
        return lambda: ana.post(f"/image/v2/images/{image}/members", {"member": f"{next(number):032x}"})
    if kind == "group snapshots":
        kind_id = made(api_client("admin"), "group_types", "group_type", {"name": "together"})["id"]
        group = made(ana, "groups", "group", {"name": "g", "group_type": kind_id, "volume_types": ["files"]})
        volume(ana, group_id=group["id"])

        def snapshot() -> Any:
            settled()
            return ana.post(f"{ROOT}/group_snapshots", {"group_snapshot": {"group_id": group["id"]}}, headers=NEWEST)

        return snapshot
    trust = {
        "trustor_user_id": people.ana.user.id, "trustee_user_id": people.chi.user.id, "impersonation": False,
        "project_id": people.ana.project.id, "roles": [{"name": "member"}],
    }  # fmt: skip
    rule = {"service": "compute", "method": "GET"}
    return {
        "application credentials": lambda: ana.post(
            f"{user}/application_credentials", {"application_credential": {"name": f"c{next(number)}"}}
        ),
        "access rules": lambda: ana.post(
            f"{user}/application_credentials",
            {
                "application_credential": {
                    "name": f"c{next(number)}",
                    "access_rules": [{**rule, "path": f"/{next(number)}"}],
                }
            },
        ),
        "trusts": lambda: ana.post("/identity/v3/OS-TRUST/trusts", {"trust": trust}),
        "credentials": lambda: ana.post(f"{user}/credentials/OS-EC2", {"tenant_id": people.ana.project.id}),
        "address scopes": lambda: ana.post(f"{V2}/address-scopes", {"address_scope": {"name": "s", "ip_version": 4}}),
    }[kind]


@pytest.mark.parametrize("kind", sorted(row_limits.LIMITS))
def test_rows_of_each_kind_are_so_many_and_no_more(
    kind: str, api_client: Any, people: Any, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = row_limits.LIMITS[kind]
    monkeypatch.setitem(row_limits.LIMITS, kind, dataclasses.replace(limit, most=2))  # type: ignore[arg-type]
    attempt, rows = _one_more(kind, api_client, people, program), apps.get_model(limit.model)._default_manager
    assert [attempt().status_code // 100 for _ in range(2)] == [2, 2]
    credentials_before = apps.get_model("identity.ApplicationCredential").objects.count()
    refused = attempt()
    assert refused.status_code in (403, 409, 413), refused.content
    assert f"too many {kind}" in refused.content.decode()
    assert rows.count() == 2
    assert apps.get_model("identity.ApplicationCredential").objects.count() == credentials_before


def test_many_at_the_same_moment_do_not_pass_a_limit(
    api_client: Any, people: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = row_limits.LIMITS["address scopes"]
    monkeypatch.setitem(row_limits.LIMITS, "address scopes", dataclasses.replace(limit, most=3))  # type: ignore[arg-type]
    clients = [api_client("ana") for _ in range(8)]

    def attempt(client: Any) -> int:
        try:
            body = {"address_scope": {"name": "s", "ip_version": 4}}
            return int(client.post(f"{V2}/address-scopes", body).status_code)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(attempt, clients)) == [201] * 3 + [409] * 5


def test_pools_and_ports_are_limited_from_the_start(
    api_client: Any, people: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana = api_client("ana")
    found = ana.get(f"{V2}/quotas/{people.ana.project.id}").json()["quota"]
    assert (found["port"], found["subnetpool"]) == (500, 100)
    assert min(found.values()) > 0, "none is without a limit"
    network_id, _ = make_network(ana)
    for name in ("port", "subnetpool"):
        counted = network_quotas.RESOURCES[name]
        monkeypatch.setitem(network_quotas.RESOURCES, name, dataclasses.replace(counted, limit=1))  # type: ignore[arg-type]
    make(ana, "ports", network_id=network_id)
    make(ana, "subnetpools", name="p", prefixes=["10.9.0.0/24"], default_prefixlen="26")
    assert fault(ana.post(f"{V2}/ports", {"port": {"network_id": network_id}})) == (409, "OverQuota")
    pool = {"name": "q", "prefixes": ["10.8.0.0/24"], "default_prefixlen": "26"}
    assert fault(ana.post(f"{V2}/subnetpools", {"subnetpool": pool})) == (409, "OverQuota")
    assert Port.objects.filter(project_id=people.ana.project.id).count() == 1


def test_a_project_takes_its_share_of_a_shared_network_and_no_more(api_client: Any, people: Any) -> None:
    admin, chi, ana = api_client("admin"), api_client("chi"), api_client("ana")
    network_id, subnet_id = make_network(admin, "10.0.0.0/26", shared=True)
    share = 61 * 25 // 100  # of the addresses between network, gateway and broadcast
    for _ in range(share):
        make(chi, "ports", network_id=network_id)
    wishes: list[dict[str, Any]] = [
        {},
        {"fixed_ips": [{"subnet_id": subnet_id}]},
        {"fixed_ips": [{"ip_address": "10.0.0.60"}]},
        {"fixed_ips": [{"subnet_id": subnet_id, "ip_address": "10.0.0.60"}]},
    ]
    for wish in wishes:
        refused = chi.post(f"{V2}/ports", {"port": {"network_id": network_id, **wish}})
        if refused.status_code != 400:  # an address of one's own choice is for the owner alone
            assert fault(refused) == (409, "SubnetShareExceeded"), wish
            assert "is its share" in refused.json()["NeutronError"]["message"]
    mine = chi.get(f"{V2}/ports").json()["ports"][0]["id"]
    more = chi.put(f"{V2}/ports/{mine}", {"port": {"fixed_ips": [{"subnet_id": subnet_id}] * 3}})
    assert more.status_code in (400, 409)
    assert AddressAllocation.objects.filter(port__project_id=people.chi.project.id).count() == share
    assert Port.objects.filter(project_id=people.chi.project.id).count() == share
    make(ana, "ports", network_id=network_id)
    for _ in range(share + 2):
        make(admin, "ports", network_id=network_id)
    assert chi.delete(f"{V2}/ports/{mine}").status_code == 204
    make(chi, "ports", network_id=network_id)
