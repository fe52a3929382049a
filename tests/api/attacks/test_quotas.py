"""A member that creates rows without end, and one that takes all addresses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import count
from typing import Any
from uuid import uuid4

import pytest
from django.apps import apps

from conductor import row_limits
from conductor.journal.models import AuditRecord
from conductor.network import quotas as network_quotas
from conductor.network.models import AddressAllocation, Port
from conductor.services.quotas import requests
from conductor.volume.models import Transfer
from tests.api.network.calls import V2, fault, make, make_network
from tests.fixtures.volume_requests import NEWEST, ROOT, made, settled, storage, volume

__all__ = ["storage"]

number = count()
Attempt = Callable[[], Any]


def _one_more(kind: str, api_client: Any, people: Any) -> Attempt:
    """Return the request with which ana creates one more row of a kind."""
    ana, user = api_client("ana"), f"/identity/v3/users/{people.ana.user.id}"
    if kind == "image_members":
        image = ana.post("/image/v2/images", {"name": "mine", "visibility": "shared"}).json()["id"]
        return lambda: ana.post(f"/image/v2/images/{image}/members", {"member": f"{next(number):032x}"})
    if kind == "group_snapshots":
        kind_id = made(api_client("admin"), "group_types", "group_type", {"name": "together"})["id"]
        group = made(ana, "groups", "group", {"name": "g", "group_type": kind_id, "volume_types": ["files"]})
        volume(ana, group_id=group["id"])

        def snapshot() -> Any:
            settled()
            return ana.post(f"{ROOT}/group_snapshots", {"group_snapshot": {"group_id": group["id"]}}, headers=NEWEST)

        return snapshot
    if kind == "volume_attachments":
        held = shared_volume(api_client)
        return lambda: attach_elsewhere(ana, held)
    trust = {
        "trustor_user_id": people.ana.user.id, "trustee_user_id": people.chi.user.id, "impersonation": False,
        "project_id": people.ana.project.id, "roles": [{"name": "member"}],
    }  # fmt: skip
    rule = {"service": "compute", "method": "GET"}
    return {
        "application_credentials": lambda: ana.post(
            f"{user}/application_credentials", {"application_credential": {"name": f"c{next(number)}"}}
        ),
        "access_rules": lambda: ana.post(
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
        "qos_policies": lambda: ana.post(f"{V2}/qos/policies", {"policy": {"name": "slow"}}),
        "address_scopes": lambda: ana.post(f"{V2}/address-scopes", {"address_scope": {"name": "s", "ip_version": 4}}),
    }[kind]


def shared_volume(api_client: Any) -> str:
    """Return a volume of ana's that any number of servers may have."""
    specs = {"multiattach": "<is> True"}
    made(api_client("admin"), "types", "volume_type", {"name": "shared", "extra_specs": specs}, status=200)
    held: str = volume(api_client("ana"), volume_type="shared")
    settled()
    return held


def attach_elsewhere(client: Any, held: str) -> Any:
    """Attach a volume to something that is no server of this cloud."""
    wanted = {"volume_uuid": held, "instance_uuid": str(uuid4())}
    return client.post(f"{ROOT}/attachments", {"attachment": wanted}, headers=NEWEST)


def set_default(api_client: Any, kind: str, most: int) -> None:
    answer = api_client("admin").put("/api/quota-defaults", {"limits": {kind: most}})
    assert answer.json()["defaults"][kind] == most


@pytest.mark.parametrize("kind", sorted(row_limits.LIMITS))
def test_rows_of_each_kind_are_so_many_and_no_more(kind: str, api_client: Any, people: Any) -> None:
    set_default(api_client, kind, 2)
    attempt = _one_more(kind, api_client, people)
    rows = apps.get_model(row_limits.LIMITS[kind].model)._default_manager
    assert [attempt().status_code // 100 for _ in range(2)] == [2, 2]
    credentials_before = apps.get_model("identity.ApplicationCredential").objects.count()
    refused = attempt()
    assert refused.status_code in (403, 409, 413), refused.content
    assert f"too many {kind.replace('_', ' ')}" in refused.content.decode()
    assert rows.count() == 2
    assert apps.get_model("identity.ApplicationCredential").objects.count() == credentials_before


def test_attaching_a_volume_repeatedly_leaves_no_rows(api_client: Any) -> None:
    ana, chi = api_client("ana"), api_client("chi")
    held = volume(ana)
    for giver, taker in ((ana, chi), (chi, ana)) * 2:
        opened = giver.post(f"{ROOT}/volume-transfers", {"transfer": {"volume_id": held}}, headers=NEWEST)
        assert opened.status_code == 202, opened.content
        given = opened.json()["transfer"]
        path, key = f"{ROOT}/volume-transfers/{given['id']}/accept", {"accept": {"auth_key": given["auth_key"]}}
        assert taker.post(path, key, headers=NEWEST).status_code == 202
        assert Transfer.objects.count() == 1


def test_withdrawn_requests_do_not_accumulate(api_client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MOST_CLOSED", 3)
    ana, chi, path = api_client("ana"), api_client("chi"), "/api/quota-requests"
    body = {"wanted": {"volumes": 150}, "reason": "backups"}
    others = chi.post(path, body).json()["quota_request"]["uuid"]
    assert chi.post(f"{path}/{others}/withdraw", {}).status_code == 200
    for _ in range(7):
        requested = ana.post(path, body)
        assert requested.status_code == 201, requested.content
        assert ana.post(f"{path}/{requested.json()['quota_request']['uuid']}/withdraw", {}).status_code == 200
    assert len(ana.get(path).json()["quota_requests"]) == 4  # the last one counts with the next
    assert len(chi.get(path).json()["quota_requests"]) == 1
    assert AuditRecord.objects.filter(action="quota_request.withdraw").count() == 8


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


def test_a_project_takes_at_most_its_share_of_a_shared_network(api_client: Any, people: Any) -> None:
    admin, chi, ana = api_client("admin"), api_client("chi"), api_client("ana")
    network_id, subnet_id = make_network(admin, "10.0.0.0/26", shared=True)
    share = 61 * 25 // 100  # of the addresses between network, gateway and broadcast
    for _ in range(share):
        make(chi, "ports", network_id=network_id)
    requests: list[dict[str, Any]] = [
        {},
        {"fixed_ips": [{"subnet_id": subnet_id}]},
        {"fixed_ips": [{"ip_address": "10.0.0.60"}]},
        {"fixed_ips": [{"subnet_id": subnet_id, "ip_address": "10.0.0.60"}]},
    ]
    for body in requests:
        refused = chi.post(f"{V2}/ports", {"port": {"network_id": network_id, **body}})
        assert refused.status_code in (400, 409), refused.content
        if refused.status_code != 400:  # an address of one's own choice is for the owner alone
            assert fault(refused) == (409, "SubnetShareExceeded"), body
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
