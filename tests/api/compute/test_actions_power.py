"""POST /servers/{id}/action for power and state actions: statuses, bodies per version, refusals, and policies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import pytest

from conductor.cell_db.models import ComputeNode, Instance
from conductor.core.server_actions import ACTIONS
from conductor.db.transactions import database_now
from conductor.image.models import Image
from conductor.journal.models import AuditRecord, ResourceLock, WorkflowRun
from conductor.journal.sealing import unseal
from tests.compute_rows import Cloud, make_instance

SERVERS = "/compute/v2.1/servers"
SECRET = "correct-horse-battery"


@pytest.fixture
def web(cloud: Cloud) -> Instance:
    """Ana's server, active on a host of cell1."""
    image = {"image_id": str(cloud.image.uuid), "name": "little-linux"}
    return make_instance(
        cloud.people.ana.context(), "cell1", "web", host="sim-1-01", launched_at=database_now(), image=image
    )


def now(instance: Instance) -> Instance:
    return Instance.objects.using("cell1").get(pk=instance.pk)


def set_state(instance: Instance, **values: Any) -> None:
    Instance.objects.using("cell1").filter(pk=instance.pk).update(**values)


def everything() -> list[Any]:
    runs = [model.objects.using("cell1").count() for model in (WorkflowRun, ResourceLock)]
    return [*runs, *Instance.objects.using("cell1").order_by("pk").values()]


def act(client: Any, instance: Instance, body: Mapping[str, Any]) -> Any:
    return client.post(f"{SERVERS}/{instance.uuid}/action", dict(body))


# body, state before, name of the action
SIMPLE: list[tuple[dict[str, Any], str, str]] = [
    ({"os-start": None}, "stopped", "start"),
    ({"os-stop": None}, "active", "stop"),
    ({"reboot": {"type": "SOFT"}}, "active", "reboot"),
    ({"reboot": {"type": "Hard"}}, "error", "reboot_hard"),
    ({"pause": None}, "active", "pause"),
    ({"unpause": None}, "paused", "unpause"),
    ({"suspend": None}, "active", "suspend"),
    ({"resume": None}, "suspended", "resume"),
    ({"unrescue": None}, "rescued", "unrescue"),
    ({"trigger_crash_dump": None}, "active", "trigger_crash_dump"),
    ({"changePassword": {"adminPass": SECRET}}, "active", "changePassword"),
    ({"restore": None}, "soft-delete", "restore"),
]


@pytest.mark.parametrize(("body", "state", "name"), SIMPLE, ids=lambda value: str(value)[:30])
def test_accepted_with_a_link_to_its_workflow(
    body: dict[str, Any], state: str, name: str, web: Instance, api_client: Any
) -> None:
    set_state(web, vm_state=state)
    answer = act(api_client("ana", version="2.96"), web, body)
    assert (answer.status_code, answer.content) == (202, b""), answer.content
    run = WorkflowRun.objects.using("cell1").get()
    assert answer.headers["Link"].endswith(f'/api/workflows/{run.uuid}>; rel="monitor"')
    assert (run.action, run.flow) == (name, ACTIONS[name].flow)
    assert now(web).task_state == ACTIONS[name].task_state
    assert SECRET not in str(run.inputs)


@pytest.mark.parametrize(("body", "state", "name"), SIMPLE, ids=lambda value: str(value)[:30])
def test_refused_in_another_state_and_kept_on_record(
    body: dict[str, Any], state: str, name: str, web: Instance, api_client: Any
) -> None:
    set_state(web, vm_state="shelved")
    before = everything()
    answer = act(api_client("ana", version="2.96"), web, body)
    message = f"Cannot '{name}' instance {web.uuid} while it is in vm_state shelved"
    assert (answer.status_code, answer.json()["conflictingRequest"]) == (409, {"code": 409, "message": message})
    assert everything() == before
    record = AuditRecord.objects.using("default").get()
    assert (record.action, record.result, record.user_name) == (f"server.{next(iter(body))}", "refused", "ana")
    assert (record.instance_uuid, record.error) == (web.uuid, {"class": "Conflict", "message": message})
    assert SECRET not in str(vars(record))


@pytest.mark.parametrize(("body", "state", "name"), SIMPLE, ids=lambda value: str(value)[:30])
def test_callers_without_the_right_are_refused(
    body: dict[str, Any], state: str, name: str, web: Instance, api_client: Any
) -> None:
    set_state(web, vm_state=state)
    before = everything()
    for person, status in (("rea", 403), ("chi", 404)):  # a reader; a user of another project
        assert act(api_client(person, version="2.96"), web, body).status_code == status
    assert everything() == before


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("2.96", {"reboot": None}, "field/attribute reboot"),
    ("2.96", {"reboot": {}}, "'type' is a required property"),
    ("2.96", {"reboot": {"type": "MAYBE"}}, "reboot.type"),
    ("2.96", {"reboot": {"type": "SOFT", "when": "now"}}, "'when' was unexpected"),
    ("2.96", {"os-start": {"now": True}}, "os-start"),
    ("2.96", {"pause": 1}, "pause"),
    ("2.96", {"changePassword": {}}, "'adminPass' is a required property"),
    ("2.96", {"changePassword": {"adminPass": 7}}, "changePassword.adminPass"),
    ("2.96", {"rescue": {"rescue_image_ref": "x"}}, "rescue"),
    ("2.96", {"rescue": {"colour": "red"}}, "rescue"),
    ("2.96", {"rebuild": {}}, "'imageRef' is a required property"),
    ("2.96", {"rebuild": {"imageRef": "x"}}, "rebuild.imageRef"),
    ("2.53", {"rebuild": {"imageRef": "$image", "key_name": None}}, "'key_name' was unexpected"),
    ("2.56", {"rebuild": {"imageRef": "$image", "user_data": None}}, "'user_data' was unexpected"),
    ("2.57", {"rebuild": {"imageRef": "$image", "personality": []}}, "'personality' was unexpected"),
    ("2.89", {"rebuild": {"imageRef": "$image", "hostname": "web"}}, "'hostname' was unexpected"),
    ("2.96", {"rebuild": {"imageRef": "$image", "user_data": "no base64!"}}, "rebuild.user_data"),
    ("2.96", {"rebuild": {"imageRef": "$image", "key_name": "lost"}}, "Invalid key_name"),
    ("2.96", {"rebuild": {"imageRef": "99999999-9999-9999-9999-999999999999"}}, "Can not find requested image"),
    ("2.96", {"os-resetState": {"state": "paused"}}, "os-resetState.state"),
    ("2.96", {"addSecurityGroup": {}}, "'name' is a required property"),
    ("2.96", {"removeSecurityGroup": {"name": ""}}, "removeSecurityGroup.name"),
    ("2.73", {"lock": {"locked_reason": ""}}, "lock"),
    ("2.16", {"trigger_crash_dump": None}, "There is no such action"),
    ("2.96", {"dance": None}, "There is no such action"),
    ("2.96", {"os-start": None, "os-stop": None}, "exactly one action"),
]


@pytest.mark.parametrize(("version", "body", "words"), BAD, ids=lambda value: str(value)[:60])
def test_an_invalid_body_names_the_field_and_changes_nothing(
    version: str, body: dict[str, Any], words: str, web: Instance, cloud: Cloud, api_client: Any
) -> None:
    body = json.loads(json.dumps(body).replace("$image", str(cloud.image.uuid)))
    before = everything()
    answer = act(api_client("admin" if "os-resetState" in body else "ana", version=version), web, body)
    assert answer.status_code == 400, answer.content
    assert words in answer.json()["badRequest"]["message"]
    assert everything() == before


@pytest.mark.parametrize("given", [None, {"adminPass": SECRET}], ids=["made", "given"])
def test_rescue_answers_with_the_password_and_no_page_has_it(
    given: dict[str, str] | None, web: Instance, api_client: Any
) -> None:
    answer = act(api_client("ana", version="2.96"), web, {"rescue": given})
    assert answer.status_code == 200, answer.content
    password = answer.json()["adminPass"]
    assert len(password) >= 12
    assert given is None or password == SECRET
    run = WorkflowRun.objects.using("cell1").get()
    assert password not in str(run.secrets)
    assert unseal(run.secrets) == {"admin_password": password}
    shown = api_client("ana").get(f"/api/workflows/{run.uuid}")
    assert shown.status_code == 200
    assert password not in shown.content.decode()


def test_rebuild_returns_the_server_with_its_new_image(web: Instance, cloud: Cloud, api_client: Any) -> None:
    client = api_client("ana", version="2.96")
    set_state(web, image={"image_id": str(uuid4()), "name": "old"})
    wanted = {
        "imageRef": str(cloud.image.uuid),
        "name": "new",
        "metadata": {"a": "b"},
        "adminPass": SECRET,
        "description": "words",
        "hostname": "new.example",
        "user_data": "d29yZHM=",
        "key_name": None,
        "OS-DCF:diskConfig": "AUTO",
        "accessIPv4": "10.1.2.3",
    }
    answer = act(client, web, {"rebuild": wanted})
    assert answer.status_code == 202, answer.content
    server = answer.json()["server"]
    assert server["id"] == str(web.uuid)
    assert (server["status"], server["name"], server["metadata"]) == ("REBUILD", "new", {"a": "b"})
    assert (server["adminPass"], server["user_data"], server["description"]) == (SECRET, "d29yZHM=", "words")
    assert (server["image"]["id"], server["accessIPv4"]) == (str(cloud.image.uuid), "10.1.2.3")
    assert server["OS-DCF:diskConfig"] == "AUTO"
    assert answer.headers["Location"].endswith(str(web.uuid))
    shown = client.get(f"{SERVERS}/{web.uuid}").json()["server"]
    assert (shown["status"], shown["name"], shown["OS-EXT-STS:task_state"]) == ("REBUILD", "web", "rebuilding")
    assert shown["image"]["id"] == str(cloud.image.uuid)  # at once
    run = WorkflowRun.objects.using("cell1").get()
    assert unseal(run.secrets) == {"admin_password": SECRET, "user_data": "d29yZHM=", "injected_files": []}
    assert "d29yZHM=" not in str(run.inputs)
    assert SECRET not in str(run.inputs)


def test_rebuild_refuses_an_image_that_is_too_big(web: Instance, cloud: Cloud, api_client: Any) -> None:
    Image.objects.filter(pk=cloud.image.pk).update(min_ram_mb=4096)
    before = everything()
    answer = act(api_client("ana"), web, {"rebuild": {"imageRef": str(cloud.image.uuid)}})
    assert answer.status_code == 400
    assert "memory is too small" in answer.json()["badRequest"]["message"]
    assert everything() == before


def test_a_server_that_never_ran_cannot_be_rebuilt(web: Instance, cloud: Cloud, api_client: Any) -> None:
    set_state(web, launched_at=None)
    answer = act(api_client("ana"), web, {"rebuild": {"imageRef": str(cloud.image.uuid)}})
    assert answer.status_code == 409
    assert "while it is in launched_at None" in answer.json()["conflictingRequest"]["message"]


# -- lock and unlock


def locked(client: Any, web: Instance) -> tuple[bool, str | None]:
    shown = client.get(f"{SERVERS}/{web.uuid}").json()["server"]
    return shown["locked"], shown["locked_reason"]


def test_a_locked_server_refuses_its_project_with_the_reason(web: Instance, api_client: Any) -> None:
    ana, admin = api_client("ana", version="2.73"), api_client("admin", version="2.73")
    answer = act(ana, web, {"lock": {"locked_reason": "do not touch"}})
    assert (answer.status_code, locked(ana, web)) == (202, (True, "do not touch"))
    refused = act(ana, web, {"os-stop": None})
    assert refused.status_code == 409
    assert refused.json()["conflictingRequest"]["message"] == f"Instance {web.uuid} is locked"
    assert ana.delete(f"{SERVERS}/{web.uuid}").status_code == 409
    assert now(web).task_state is None
    assert act(admin, web, {"os-stop": None}).status_code == 202
    assert act(ana, web, {"unlock": None}).status_code == 202  # also while something is under way
    assert locked(ana, web) == (False, None)
    actions = ana.get(f"{SERVERS}/{web.uuid}/os-instance-actions").json()["instanceActions"]
    assert [action["action"] for action in actions] == ["unlock", "stop", "lock"]


def test_an_administrators_lock_is_not_the_owners_to_open_or_change(web: Instance, api_client: Any) -> None:
    ana, admin = api_client("ana", version="2.73"), api_client("admin", version="2.73")
    assert act(admin, web, {"lock": {"locked_reason": "audit"}}).status_code == 202
    assert act(ana, web, {"lock": {"locked_reason": "mine"}}).status_code == 202
    assert (now(web).locked_by, now(web).locked_reason) == ("admin", "audit")
    before = everything()
    answer = act(ana, web, {"unlock": None})
    assert answer.status_code == 403
    assert "os-lock-server:unlock:unlock_override" in answer.json()["forbidden"]["message"]
    assert everything() == before
    assert act(admin, web, {"unlock": None}).status_code == 202
    assert (now(web).is_locked, now(web).locked_by, now(web).locked_reason) == (False, "", None)


def test_before_2_73_a_lock_has_no_reason(web: Instance, api_client: Any) -> None:
    assert act(api_client("ana", version="2.72"), web, {"lock": {"locked_reason": "x"}}).status_code == 202
    assert (now(web).is_locked, now(web).locked_reason) == (True, None)
    assert act(api_client("chi", version="2.72"), web, {"unlock": None}).status_code == 404


# -- resetting the state


@pytest.mark.parametrize("state", ["active", "error"])
def test_an_administrator_resets_the_state(state: str, web: Instance, api_client: Any) -> None:
    set_state(web, vm_state="paused", task_state="pausing")
    answer = act(api_client("admin"), web, {"os-resetState": {"state": state}})
    assert answer.status_code == 202, answer.content
    assert (now(web).vm_state, now(web).task_state, now(web).power_state) == (state, None, web.power_state)
    record = AuditRecord.objects.using("cell1").get()
    assert (record.action, record.result, record.user_name) == ("server.resetState", "done", "admin")
    subject = {"kind": "server", "id": str(web.uuid), "name": web.name}
    before = {"vm_state": "paused", "task_state": "pausing"}
    assert record.details == {"before": before, "after": state, "subject": subject}
    run = WorkflowRun.objects.using("cell1").get()
    assert (run.state, run.action, run.uuid) == ("done", "resetState", record.run_uuid)


def test_members_may_not_reset_states(web: Instance, api_client: Any) -> None:
    before = everything()
    assert act(api_client("ana"), web, {"os-resetState": {"state": "error"}}).status_code == 403
    assert everything() == before


def test_a_reset_is_refused_while_a_workflow_is_active(web: Instance, api_client: Any) -> None:
    act(api_client("ana"), web, {"os-stop": None})
    run = WorkflowRun.objects.using("cell1").get()
    before = everything()
    answer = act(api_client("admin"), web, {"os-resetState": {"state": "active"}})
    assert answer.status_code == 409
    assert str(run.uuid) in answer.json()["conflictingRequest"]["message"]
    assert everything() == before


def test_an_unsupported_action_is_answered_501(web: Instance, api_client: Any) -> None:
    ComputeNode.objects.using("cell1").update(report={"capabilities": {"actions": []}})
    before = everything()
    answer = act(api_client("ana"), web, {"pause": None})
    assert answer.status_code == 501
    assert "cannot do 'pause'" in answer.json()["notImplemented"]["message"]
    assert everything() == before


def test_retry_of_a_build_is_no_action_of_the_compute_api(cloud: Cloud, api_client: Any) -> None:
    ana = cloud.people.ana.context()
    failed = make_instance(ana, "cell2", "failed", vm_state="error", launched_at=None, power_state=0)
    path = f"/api/servers/{failed.uuid}/try-again"
    assert api_client(None).post(path).status_code == 401
    assert api_client("rea").post(path).status_code == 403
    assert api_client("chi").post(path).status_code == 404
    refused = api_client("ana").post(path)
    assert refused.status_code == 409
    assert "what was asked for it is not kept any more" in refused.json()["error"]["message"]
    assert {row.action for row in AuditRecord.objects.using("default").all()} == {"server.tryAgain"}
