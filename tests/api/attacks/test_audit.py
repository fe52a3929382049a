"""Queries of the sealed audit log: sign-ins with address, and who did what to which server, long afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from conductor.journal.models import AuditRecord, Event, ResourceLock, WorkflowRun
from conductor.services.audit import seals
from conductor.services.operations.pruning import pruner
from conductor.services.servers import flavors
from tests import factories
from tests.people import PASSWORD

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


@pytest.fixture
def cloud(people: Any) -> Any:
    factories.cells()
    factories.host("sim-1")
    flavors.seed()
    return people


def records(alias: str = "cell1", **wanted: Any) -> list[AuditRecord]:
    return list(AuditRecord.objects.using(alias).filter(**wanted).order_by("pk"))


def test_every_accepted_action_on_a_server_is_on_record(cloud: Any, api_client: Any) -> None:
    ana = api_client("ana", version="2.90")
    row = factories.instance(cloud.ana.context(), "web")
    path = f"/compute/v2.1/servers/{row.uuid}"
    assert ana.post(f"{path}/action", {"lock": None}).status_code == 202
    assert ana.post(f"{path}/action", {"unlock": None}).status_code == 202
    assert ana.post(f"{path}/action", {"os-stop": None}).status_code == 202
    assert ana.delete(path).status_code == 204
    found = records(instance_uuid=row.uuid)
    assert [one.action for one in found] == ["server.lock", "server.unlock", "server.stop", "server.delete"]
    assert {(one.result, one.user_name, one.project_id) for one in found} == {("done", "ana", row.project_id)}
    assert all(one.run_uuid for one in found[:3])


def test_a_launch_is_on_record_for_each_of_its_servers(cloud: Any, api_client: Any) -> None:
    image = factories.image("simulated-linux", cloud.admin.context(), is_simulated=True)
    network = factories.network("private", cloud.admin.context())
    server = {
        "name": "web",
        "flavorRef": "1",
        "imageRef": str(image.uuid),
        "networks": [{"uuid": str(network.uuid)}],
        "min_count": 2,
        "max_count": 2,
    }
    assert api_client("ana", version="2.90").post("/compute/v2.1/servers", {"server": server}).status_code == 202
    made = records("default", action="server.create")
    assert [one.details["subject"]["name"] for one in made] == ["web-1", "web-2"]
    assert api_client("ana").delete(f"/compute/v2.1/servers/{made[0].instance_uuid}").status_code == 204
    assert [one.instance_uuid for one in records("default", action="server.delete")] == [made[0].instance_uuid]


def test_actions_of_an_operator_on_a_server_are_audited_with_the_operator_as_actor(cloud: Any, api_client: Any) -> None:
    """The owners find it by their project, and it names the project that the operator acted from."""
    row, admin = factories.instance(cloud.ana.context(), "web"), api_client("admin", version="2.90")
    path = f"/compute/v2.1/servers/{row.uuid}"
    assert admin.post(f"{path}/action", {"os-stop": None}).status_code == 202
    assert admin.delete(path).status_code == 204
    found = records(instance_uuid=row.uuid)
    assert [one.action for one in found] == ["server.stop", "server.delete"]
    whose = {(one.user_name, one.actor_project_id, one.project_id) for one in found}
    assert whose == {("admin", cloud.admin.project.id, cloud.ana.project.id)}
    seen = api_client("ana").get(f"/api/audit?instance_uuid={row.uuid}").json()["records"]
    assert {one["user_name"] for one in seen} == {"admin"}


def test_a_refused_action_leaves_no_record_of_success(cloud: Any, api_client: Any) -> None:
    row = factories.instance(cloud.ana.context(), "web", vm_state="stopped")
    answer = api_client("ana", version="2.90").post(f"/compute/v2.1/servers/{row.uuid}/action", {"os-stop": None})
    assert answer.status_code == 409
    assert records(instance_uuid=row.uuid, result="done") == []


def test_a_deletion_is_in_the_audit_log_after_its_workflow_was_pruned(cloud: Any, api_client: Any) -> None:
    row = factories.instance(cloud.ana.context(), "web")
    assert api_client("ana").delete(f"/compute/v2.1/servers/{row.uuid}").status_code == 204
    seals.seal("cell1")
    year = factories.ago(400 * 86400)
    runs = WorkflowRun.objects.using("cell1").filter(instance_uuid=row.uuid)
    runs.update(state="done", created_at=year, finished_at=year, resources=[])
    Event.objects.using("cell1").update(created_at=year)
    ResourceLock.objects.using("cell1").all().delete()
    pruner.prune(["cell1"])
    assert not runs.exists()
    found = api_client("admin").get(f"/api/audit?instance_uuid={row.uuid}").json()["records"]
    assert [(one["action"], one["user_name"]) for one in found] == [("server.delete", "ana")]
    assert seals.check("cell1") == ""


def sign_in(api_client: Any, name: str, password: str) -> Any:
    user = {"name": name, "domain": {"name": "Default"}, "password": password}
    body = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}}}
    return api_client(None).post("/identity/v3/auth/tokens", body)


def test_sign_ins_are_on_record_with_their_address_and_those_that_failed(cloud: Any, api_client: Any) -> None:
    before = AuditRecord.objects.count()
    assert sign_in(api_client, "ana", PASSWORD).status_code == 201
    assert sign_in(api_client, "ana", "wrong-horse-battery").status_code == 401
    assert sign_in(api_client, "hunter2-secret", "whatever").status_code == 401
    browser = Client()
    assert browser.post("/sign-in", {"username": "ana", "password": PASSWORD}).status_code == 302
    assert browser.post("/sign-in", {"username": "bo", "password": "wrong-horse-battery"}).status_code == 401
    found = list(AuditRecord.objects.order_by("pk")[before:])
    assert {one.action for one in found} == {"session.sign_in"}
    lines = [(one.result, one.user_name, one.details.get("account", "")) for one in found]
    assert lines == [
        ("done", "ana", ""),
        ("refused", "", "ana"),
        ("refused", "", "unknown"),  # it may be a password in the wrong field
        ("done", "ana", ""),
        ("refused", "", "bo"),
    ]
    assert {one.remote_address for one in found} == {"127.0.0.1"}
    assert "horse" not in str([vars(one) for one in found])


def test_a_token_that_is_narrowed_is_no_sign_in(cloud: Any, api_client: Any) -> None:
    token = sign_in(api_client, "ana", PASSWORD)["X-Subject-Token"]
    before = AuditRecord.objects.count()
    body = {"auth": {"identity": {"methods": ["token"], "token": {"id": token}}}}
    assert api_client(None).post("/identity/v3/auth/tokens", body).status_code == 201
    assert AuditRecord.objects.count() == before
