"""Audit of members' changes to their project's resources: with actor and name, and only if they were done."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DatabaseError

from conductor.journal.models import AuditRecord
from conductor.services.audit import audit, seals, targets
from conductor.volume.models import Volume
from tests import factories
from tests.counting import counted

NETWORK, VOLUME, IMAGE, COMPUTE = "/network/v2.0", "/volume/v3", "/image/v2", "/compute/v2.1"
NEWEST = {"OpenStack-API-Version": "volume 3.67"}
PATCH = "application/openstack-images-v2.1-json-patch"


@pytest.fixture(autouse=True)
def _cells(people: Any) -> None:
    factories.cells()


@pytest.fixture
def ana(people: Any, api_client: Any) -> Any:
    return api_client("ana")


def records(client: Any, query: str = "") -> list[tuple[str, str]]:
    """Oldest first: what was done, and the name of what it was done to."""
    found = client.get(f"/api/audit?result=done&{query}").json()["records"]
    return [(one["action"], one["subject"]["name"]) for one in reversed(found) if one["subject"]]


def made(client: Any, path: str, body: dict[str, Any], **sent: Any) -> Any:
    answer = client.post(path, body, **sent)
    assert answer.status_code < 300, answer.content
    found = answer.json()
    return next(iter(found.values())) if len(found) == 1 else found


def done(answer: Any) -> None:
    assert answer.status_code < 300, answer.content


def test_networks_and_all_on_them(ana: Any, people: Any) -> None:
    network = made(ana, f"{NETWORK}/networks", {"network": {"name": "blue"}})["id"]
    subnet = {"network_id": network, "name": "inner", "cidr": "10.9.0.0/24", "ip_version": 4}
    subnet_id = made(ana, f"{NETWORK}/subnets", {"subnet": subnet})["id"]
    port = made(ana, f"{NETWORK}/ports", {"port": {"network_id": network, "name": "plug"}})["id"]
    router = made(ana, f"{NETWORK}/routers", {"router": {"name": "way out"}})["id"]
    done(ana.put(f"{NETWORK}/routers/{router}/add_router_interface", {"subnet_id": subnet_id}))
    group = made(ana, f"{NETWORK}/security-groups", {"security_group": {"name": "web"}})["id"]
    rule = {"security_group_id": group, "direction": "ingress", "protocol": "tcp", "port_range_min": 80}
    rule_id = made(ana, f"{NETWORK}/security-group-rules", {"security_group_rule": {**rule, "port_range_max": 80}})[
        "id"
    ]
    done(ana.put(f"{NETWORK}/networks/{network}", {"network": {"name": "green"}}))
    done(ana.put(f"{NETWORK}/ports/{port}/tags/door"))
    done(ana.delete(f"{NETWORK}/security-group-rules/{rule_id}"))
    done(ana.delete(f"{NETWORK}/ports/{port}"))
    assert records(ana) == [
        ("network.create", "blue"),
        ("subnet.create", "inner"),
        ("port.create", "plug"),
        ("router.create", "way out"),
        ("router.add_interface", "way out"),
        ("security_group.create", "web"),
        ("security_group_rule.create", "web"),
        ("network.update", "green"),
        ("port.update", "plug"),
        ("security_group_rule.delete", "web"),
        ("port.delete", "plug"),
    ]
    assert records(ana, "kind=port") == [("port.create", "plug"), ("port.update", "plug"), ("port.delete", "plug")]
    first = ana.get("/api/audit?action=network.create").json()["records"][0]
    assert first["subject"] == {"kind": "network", "id": network, "name": "blue"}
    assert (first["user_name"], first["project_id"]) == ("ana", people.ana.project.id)
    assert first["request_id"].startswith("req-")


def test_floating_ips_are_named_by_their_address(ana: Any, api_client: Any) -> None:
    admin = api_client("admin")
    outside = made(admin, f"{NETWORK}/networks", {"network": {"name": "outside", "router:external": True}})["id"]
    subnet = {"network_id": outside, "cidr": "203.0.113.0/24", "ip_version": 4}
    made(admin, f"{NETWORK}/subnets", {"subnet": subnet})
    floating = made(ana, f"{NETWORK}/floatingips", {"floatingip": {"floating_network_id": outside}})
    path, address = f"{NETWORK}/floatingips/{floating['id']}", floating["floating_ip_address"]
    done(ana.put(path, {"floatingip": {"description": "the shop's door"}}))
    done(ana.delete(path))
    assert records(ana) == [
        ("floating_ip.create", address),
        ("floating_ip.update", address),
        ("floating_ip.delete", address),
    ]


def test_several_at_once_have_a_record_each_in_as_many_statements(ana: Any) -> None:
    def make(count: int) -> int:
        body = {"networks": [{"name": f"n-{number}"} for number in range(count)]}
        with counted("default") as seen:
            done(ana.post(f"{NETWORK}/networks", body))
        assert len(records(ana, "action=network.create")) == AuditRecord.objects.filter(action="network.create").count()
        return sum("journal_auditrecord" in one for one in seen.statements)

    assert make(1) == 1
    assert make(7) == 1
    assert len(records(ana)) == 8


def test_volumes_and_images_keys_and_groups(ana: Any) -> None:
    volume = made(ana, f"{VOLUME}/volumes", {"volume": {"name": "data", "size": 1}})["id"]
    done(ana.put(f"{VOLUME}/volumes/{volume}", {"volume": {"description": "d"}}))
    done(ana.post(f"{VOLUME}/volumes/{volume}/metadata", {"metadata": {"a": "b"}}))
    done(ana.post(f"{VOLUME}/volumes/{volume}/action", {"os-extend": {"new_size": 2}}))
    done(ana.post(f"{VOLUME}/volumes/{volume}/action", {"os-show_image_metadata": {}}))
    done(ana.delete(f"{VOLUME}/volumes/{volume}"))
    image = made(ana, f"{IMAGE}/images", {"name": "linux", "disk_format": "raw", "container_format": "bare"})["id"]
    done(ana.put(f"{IMAGE}/images/{image}/tags/old"))
    done(ana.delete(f"{IMAGE}/images/{image}"))
    group = made(ana, f"{COMPUTE}/os-server-groups", {"server_group": {"name": "apart", "policies": ["affinity"]}})[
        "id"
    ]
    done(ana.delete(f"{COMPUTE}/os-server-groups/{group}"))
    key = made(ana, f"{COMPUTE}/os-keypairs", {"keypair": {"name": "laptop"}})
    done(ana.delete(f"{COMPUTE}/os-keypairs/laptop"))
    assert records(ana) == [
        ("volume.create", "data"),
        ("volume.update", "data"),
        ("volume.update", "data"),
        ("volume.extend", "data"),
        ("volume.delete", "data"),
        ("image.create", "linux"),
        ("image.update", "linux"),
        ("image.delete", "linux"),
        ("server_group.create", "apart"),
        ("server_group.delete", "apart"),
        ("key_pair.create", "laptop"),
        ("key_pair.delete", "laptop"),
    ]
    assert "PRIVATE KEY" in key["private_key"]
    kept = str(list(AuditRecord.objects.values()))
    assert "PRIVATE KEY" not in kept
    assert key["public_key"].split()[1] not in kept


def test_changes_by_old_compute_routes_are_audited(ana: Any) -> None:
    group = made(ana, f"{COMPUTE}/os-security-groups", {"security_group": {"name": "web", "description": ""}})["id"]
    volume = made(ana, f"{COMPUTE}/os-volumes", {"volume": {"display_name": "data", "size": 1}})["id"]
    done(ana.delete(f"{COMPUTE}/os-volumes/{volume}"))
    done(ana.delete(f"{COMPUTE}/os-security-groups/{group}"))
    assert records(ana) == [
        ("security_group.create", "web"),
        ("volume.create", "data"),
        ("volume.delete", "data"),
        ("security_group.delete", "web"),
    ]


def test_sharing_transfers_and_groups_are_audited(ana: Any, people: Any, api_client: Any) -> None:
    admin, chi = api_client("admin"), api_client("chi")
    kind = made(admin, f"{VOLUME}/group_types", {"group_type": {"name": "together"}}, headers=NEWEST)["id"]
    group = {"name": "both", "group_type": kind, "volume_types": ["files"]}
    group_id = made(ana, f"{VOLUME}/groups", {"group": group}, headers=NEWEST)["id"]
    done(ana.post(f"{VOLUME}/groups/{group_id}/action", {"delete": {"delete-volumes": True}}, headers=NEWEST))
    volume = made(ana, f"{VOLUME}/volumes", {"volume": {"name": "data", "size": 1}})["id"]
    Volume.objects.update(status="available")
    lent = made(ana, f"{VOLUME}/attachments", {"attachment": {"volume_uuid": volume}}, headers=NEWEST)["id"]
    done(ana.delete(f"{VOLUME}/attachments/{lent}", headers=NEWEST))
    Volume.objects.update(status="available")
    given = made(ana, f"{VOLUME}/os-volume-transfer", {"transfer": {"volume_id": volume, "name": "gift"}})
    accept = {"accept": {"auth_key": given["auth_key"]}}
    done(chi.post(f"{VOLUME}/os-volume-transfer/{given['id']}/accept", accept))
    assert records(ana) == [
        ("volume_group.create", "both"),
        ("volume_group.delete", "both"),
        ("volume.create", "data"),
        ("volume_attachment.create", "data"),
        ("volume_attachment.delete", "data"),
        ("volume_transfer.create", "data"),
    ]
    assert records(chi) == [("volume_transfer.accept", "data")]
    assert given["auth_key"] not in str(list(AuditRecord.objects.values()))
    assert AuditRecord.objects.get(action="group_type.create").details["made"] == kind


def test_ranges_scopes_and_sharing(ana: Any) -> None:
    network = made(ana, f"{NETWORK}/networks", {"network": {"name": "blue"}})["id"]
    policy = {"object_type": "network", "object_id": network, "action": "access_as_shared", "target_tenant": "lab"}
    policy_id = made(ana, f"{NETWORK}/rbac-policies", {"rbac_policy": policy})["id"]
    done(ana.delete(f"{NETWORK}/rbac-policies/{policy_id}"))
    scope = made(ana, f"{NETWORK}/address-scopes", {"address_scope": {"name": "inside", "ip_version": 4}})["id"]
    pool = {"name": "tens", "prefixes": ["10.0.0.0/16"]}
    pool_id = made(ana, f"{NETWORK}/subnetpools", {"subnetpool": pool})["id"]
    done(ana.put(f"{NETWORK}/subnetpools/{pool_id}/tags/spare"))
    done(ana.delete(f"{NETWORK}/address-scopes/{scope}"))
    assert records(ana)[1:] == [
        ("rbac_policy.create", "blue"),
        ("rbac_policy.delete", "blue"),
        ("address_scope.create", "inside"),
        ("subnet_pool.create", "tens"),
        ("subnet_pool.update", "tens"),
        ("address_scope.delete", "inside"),
    ]


def test_credentials_are_reported_and_their_secrets_are_not(ana: Any, people: Any) -> None:
    me, shop = people.ana.user.id, people.ana.project.id
    root = f"/identity/v3/users/{me}"
    program = made(ana, f"{root}/application_credentials", {"application_credential": {"name": "builder"}})
    pair = made(ana, f"{root}/credentials/OS-EC2", {"tenant_id": shop})
    stored = {"user_id": me, "project_id": shop, "type": "certificate", "blob": "hush-hush-blob"}
    stored_id = made(ana, "/identity/v3/credentials", {"credential": stored})["id"]
    done(ana.delete(f"{root}/application_credentials/{program['id']}"))
    done(ana.delete(f"{root}/credentials/OS-EC2/{pair['access']}"))
    done(ana.delete(f"/identity/v3/credentials/{stored_id}"))
    trust = {"trustor_user_id": me, "trustee_user_id": people.bo.user.id, "project_id": shop, "impersonation": False}
    trust_id = made(ana, "/identity/v3/OS-TRUST/trusts", {"trust": {**trust, "roles": [{"name": "reader"}]}})["id"]
    done(ana.delete(f"/identity/v3/OS-TRUST/trusts/{trust_id}"))
    assert records(ana) == [
        ("application_credential.create", "builder"),
        ("ec2_credential.create", "ana"),
        ("credential.create", "certificate"),
        ("application_credential.delete", "builder"),
        ("ec2_credential.delete", "ana"),
        ("credential.delete", "certificate"),
        ("trust.create", "bo"),
        ("trust.delete", "bo"),
    ]
    kept = str(list(AuditRecord.objects.values()))
    for secret in (program["secret"], pair["secret"], stored["blob"]):
        assert secret not in kept


def test_renaming_a_server_is_audited_with_its_name(ana: Any, people: Any) -> None:
    server = str(factories.instance(people.ana.context(), "web").uuid)
    done(ana.put(f"{COMPUTE}/servers/{server}", {"server": {"name": "web-1"}}))
    done(ana.put(f"{COMPUTE}/servers/{server}/metadata/a", {"meta": {"a": "b"}}))
    found = ana.get(f"/api/audit?kind=server&instance_uuid={server}").json()["records"]
    assert [one["action"] for one in found] == ["server.update", "server.update"]


def test_changes_of_operators_are_audited_without_secrets(people: Any, api_client: Any) -> None:
    admin = api_client("admin")
    kind = made(admin, f"{VOLUME}/types", {"volume_type": {"name": "fast"}})["id"]
    done(admin.post(f"{VOLUME}/types/{kind}/extra_specs", {"extra_specs": {"a": "b"}}))
    config = {"config": {"ldap": {"url": "ldap://there", "password": "hush-hush-ldap"}}}
    assert admin.put("/identity/v3/domains/default/config", config).status_code == 403
    done(admin.post("/placement/resource_providers", {"name": "rack-1"}))
    done(admin.post("/image/v2/metadefs/namespaces", {"namespace": "ours"}))
    assert api_client("ana").delete(f"{VOLUME}/types/{kind}").status_code == 403
    found = list(AuditRecord.objects.order_by("created_at").values_list("action", "result"))
    assert found == [
        ("volume_type.create", "done"),
        ("volume_type.extra_specs.create", "done"),
        ("domain.config.update", "refused"),
        ("resource_provider.create", "done"),
        ("metadef.create", "done"),
        ("volume_type.delete", "refused"),
    ]
    assert "hush-hush" not in str(list(AuditRecord.objects.values()))


def test_actions_of_a_workflow_are_audited_once(ana: Any) -> None:
    volume = made(ana, f"{VOLUME}/volumes", {"volume": {"name": "data", "size": 1}})["id"]
    made(ana, f"{VOLUME}/snapshots", {"snapshot": {"volume_id": volume, "name": "before"}})
    assert records(ana) == [("volume.create", "data")]


def test_a_refused_request_leaves_none(ana: Any, people: Any, api_client: Any) -> None:
    network = str(factories.network("theirs", people.chi.context(), is_shared=False).uuid)
    body = {"network": {"name": "blue"}}
    assert ana.post(f"{NETWORK}/networks", {"network": {"name": 7}}).status_code == 400
    assert ana.delete(f"{NETWORK}/networks/{network}").status_code == 404
    assert ana.put(f"{NETWORK}/networks/{network}", body).status_code == 404
    assert ana.post(f"{VOLUME}/volumes", {"volume": {"size": 0}}).status_code == 400
    assert api_client("rea").post(f"{NETWORK}/networks", body).status_code == 403
    assert api_client(None).post(f"{NETWORK}/networks", body).status_code == 401
    assert not AuditRecord.objects.exists()


def test_refused_requests_of_administrators_are_audited(ana: Any, people: Any, api_client: Any) -> None:
    admin = api_client("admin")
    image = factories.image("linux", people.ana.context(), is_protected=True)
    assert admin.delete(f"{IMAGE}/images/{image.uuid}").status_code == 403
    assert admin.delete(f"{NETWORK}/networks/nowhere").status_code == 404
    assert admin.post(f"{NETWORK}/networks", {"network": {"name": 7}}).status_code == 400
    found = AuditRecord.objects.order_by("created_at")
    assert [(one.action, one.result, one.details["subject"]["name"]) for one in found] == [
        ("image.delete", "refused", "linux"),
        ("network.delete", "refused", ""),
        ("network.create", "refused", ""),
    ]
    assert [one["action"] for one in ana.get("/api/audit").json()["records"]] == ["image.delete"], "it is the shop's"


def test_owners_see_what_an_administrator_did_to_their_resources(ana: Any, people: Any, api_client: Any) -> None:
    network = made(ana, f"{NETWORK}/networks", {"network": {"name": "blue"}})["id"]
    done(api_client("admin").delete(f"{NETWORK}/networks/{network}", headers={"Novella-Reason": "unused"}))
    deleted = ana.get("/api/audit?action=network.delete").json()["records"][0]
    assert (deleted["user_name"], deleted["reason"], deleted["subject"]["name"]) == ("admin", "unused", "blue")
    assert (deleted["remote_address"], deleted["details"]) == ("", {}), "an operator's own are not shown"
    assert records(api_client("chi")) == []


def test_a_replayed_response_is_not_audited_again(ana: Any) -> None:
    for _ in range(2):
        made(
            ana,
            f"{VOLUME}/volumes",
            {"volume": {"name": "data", "size": 1}},
            headers={"Idempotency-Key": "once-and-only-once"},
        )
    assert records(ana) == [("volume.create", "data")]


def test_an_audit_log_that_cannot_be_written_does_not_change_the_answer(
    ana: Any, people: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*args: Any) -> None:
        raise DatabaseError("disk full")

    monkeypatch.setattr(audit, "record_all", full)
    made(ana, f"{NETWORK}/networks", {"network": {"name": "blue"}})
    assert "audit record lost: verb=create" in caplog.text
    monkeypatch.setattr(targets, "find", full)
    network = str(factories.network("green", people.ana.context()).uuid)
    done(ana.put(f"{NETWORK}/networks/{network}", {"network": {"name": "red"}}))
    assert "audit record lost: verb=update" in caplog.text


def test_records_are_signed_as_all_others(ana: Any) -> None:
    made(ana, f"{NETWORK}/networks", {"network": {"name": "blau · grün"}})
    assert seals.seal("default") == 1
    assert seals.check("default") == ""
