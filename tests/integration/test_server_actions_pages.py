"""Acting on servers from their pages: offered by state and driver, refused in words, all without a script."""

from __future__ import annotations

import html
from typing import Any

import pytest
from django.test import Client

from conductor.cell_db.models import ComputeNode, Instance
from conductor.journal.models import AuditRecord, ResourceLock, WorkflowRun
from tests import factories
from tests.integration.page_clients import signed_in

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


@pytest.fixture
def cloud(people: Any) -> Any:
    factories.cells()
    factories.host("sim-1")
    factories.image("simulated-linux", people.admin.context())
    return people


def server(cloud: Any, **values: Any) -> Instance:
    return factories.instance(cloud.ana.context(), "web", **values)


def now(row: Instance) -> Instance:
    return Instance.objects.using("cell1").get(pk=row.pk)


def page(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, answer
    return html.unescape(" ".join(answer.content.decode().split()))


def everything() -> list[Any]:
    runs = [model.objects.using("cell1").count() for model in (WorkflowRun, ResourceLock)]
    return [*runs, *Instance.objects.using("cell1").order_by("pk").values()]


@pytest.mark.parametrize(
    ("values", "offered", "not_offered"),
    [
        (
            {"vm_state": "active"},
            {"stop", "reboot", "hard-reboot", "pause", "suspend", "rescue", "rebuild", "lock"},
            {"start": "Only while it is stopped.", "try-again": "It has run before: rebuild it instead."},
        ),
        (
            {"vm_state": "stopped"},
            {"start", "hard-reboot", "rebuild"},
            {"stop": "Only while it is active or in error."},
        ),
        ({"vm_state": "rescued"}, {"unrescue"}, {"rescue": "Only while it is active, stopped or in error."}),
        ({"vm_state": "soft-delete"}, {"restore", "destroy"}, {"start": "Only while it is stopped."}),
        (
            {"vm_state": "active", "task_state": "rebooting"},
            {"hard-reboot", "lock"},
            {"stop": "Something is under way: rebooting."},
        ),
        (
            {"vm_state": "active", "is_locked": True},
            {"unlock"},
            {"stop": "It is locked.", "lock": "It is locked already."},
        ),
        (
            {"vm_state": "active", "is_locked": True, "locked_by": "admin"},
            set(),
            {"unlock": "An administrator has locked it."},
        ),
        (
            {"vm_state": "error", "launched_at": None, "host": None, "node": None},
            {"try-again", "lock"},
            {"rebuild": "It has never run."},
        ),
    ],
    ids=lambda value: str(sorted(value) if isinstance(value, set) else value)[:40],
)
def test_offered_by_state_and_the_rest_says_why(
    values: dict[str, Any], offered: set[str], not_offered: dict[str, str], cloud: Any
) -> None:
    row = server(cloud, **values)
    shown = page(signed_in("ana"), f"/servers/{row.uuid}")
    for name in offered:
        assert f'href="/servers/do/{name}?server={row.uuid}"' in shown, name
    for name, why in not_offered.items():
        assert f'href="/servers/do/{name}?server={row.uuid}"' not in shown, name
        assert f'<span class="soft" id="not-{name}">{why}</span>' in shown


def test_what_the_driver_cannot_do_is_not_offered(cloud: Any) -> None:
    row = server(cloud)
    ComputeNode.objects.using("cell1").update(report={"capabilities": {"actions": ["rebuild"]}})
    shown = page(signed_in("ana"), f"/servers/{row.uuid}")
    assert f"/servers/do/rebuild?server={row.uuid}" in shown
    assert '<span class="soft" id="not-pause">The driver of its host cannot do this.</span>' in shown


def test_a_button_leads_to_a_question_and_the_answer_to_a_workflow(cloud: Any) -> None:
    row, ana = server(cloud), signed_in("ana")
    asked = page(ana, f"/servers/do/stop?server={row.uuid}")
    assert "Stop?" in asked
    assert "The guest is asked to shut down" in asked
    assert now(row).task_state is None
    answer = ana.post("/servers/do/stop", {"server": str(row.uuid)})
    assert (answer.status_code, answer["Location"]) == (302, f"/servers/{row.uuid}")
    assert now(row).task_state == "powering-off"
    assert WorkflowRun.objects.using("cell1").get().action == "stop"
    assert f"/servers/do/start?server={row.uuid}" not in page(ana, f"/servers/{row.uuid}")


def test_several_at_once_and_those_that_refuse_are_named(cloud: Any) -> None:
    one, other = server(cloud), server(cloud, vm_state="stopped")
    ana = signed_in("ana")
    assert "Stop: 2 servers?" in page(ana, f"/servers/do/stop?server={one.uuid}&server={other.uuid}")
    answer = ana.post("/servers/do/stop", {"server": [str(one.uuid), str(other.uuid)]})
    assert answer.status_code == 200
    assert (now(one).task_state, now(other).task_state) == ("powering-off", None)
    told = html.unescape(answer.content.decode())
    assert "1 done, 1 refused" in told
    assert f"Cannot 'stop' instance {other.uuid} while it is in vm_state stopped" in told


def test_a_refusal_is_said_on_the_form_and_kept_on_record(cloud: Any) -> None:
    row = server(cloud, vm_state="stopped")
    before = everything()
    answer = signed_in("ana").post("/servers/do/stop", {"server": str(row.uuid)})
    assert answer.status_code == 409
    assert "Nothing was changed" in answer.content.decode()
    assert "while it is in vm_state stopped" in answer.content.decode()
    assert everything() == before
    assert AuditRecord.objects.using("default").get().action == "server.stop"


def test_rebuild_asks_for_an_image_and_a_name(cloud: Any) -> None:
    row, ana = server(cloud), signed_in("ana")
    asked = page(ana, f"/servers/do/rebuild?server={row.uuid}")
    assert "simulated-linux" in asked
    image = next(iter(factories.Image.objects.all()))
    form = {"server": str(row.uuid), "image": str(image.uuid), "name": "fresh"}
    assert ana.post("/servers/do/rebuild", form).status_code == 302
    run = WorkflowRun.objects.using("cell1").get()
    assert (run.inputs["values"]["name"], run.inputs["values"]["image"]["image_id"]) == ("fresh", str(image.uuid))


def test_a_password_never_comes_back(cloud: Any) -> None:
    row, ana = server(cloud, vm_state="stopped"), signed_in("ana")
    answer = ana.post("/servers/do/change-password", {"server": str(row.uuid), "password": "hush-hush-hush"})
    assert answer.status_code == 409
    assert "hush-hush-hush" not in answer.content.decode()
    Instance.objects.using("cell1").update(vm_state="active")
    assert ana.post("/servers/do/change-password", {"server": str(row.uuid)}).status_code == 409
    form = {"server": str(row.uuid), "password": "hush-hush-hush"}
    assert ana.post("/servers/do/change-password", form).status_code == 302
    run = WorkflowRun.objects.using("cell1").get()
    assert "hush" not in page(ana, f"/workflows/{run.uuid}") + page(ana, f"/servers/{row.uuid}/activity")


def test_lock_and_unlock(cloud: Any) -> None:
    row, ana = server(cloud), signed_in("ana")
    ana.post("/servers/do/lock", {"server": str(row.uuid), "reason": "payday"})
    assert (now(row).is_locked, now(row).locked_reason) == (True, "payday")
    assert "locked" in page(ana, f"/servers/{row.uuid}")
    ana.post("/servers/do/unlock", {"server": str(row.uuid)})
    assert (now(row).is_locked, now(row).locked_reason) == (False, None)


def test_who_may_not(cloud: Any) -> None:
    row = server(cloud)
    before = everything()
    assert signed_in("chi").post("/servers/do/stop", {"server": str(row.uuid)}).status_code == 404
    rea = signed_in("rea")
    assert "server-actions" in page(rea, f"/servers/{row.uuid}")
    assert "/servers/do/" not in page(rea, f"/servers/{row.uuid}")
    assert rea.post("/servers/do/stop", {"server": str(row.uuid)}).status_code == 403
    assert rea.post("/servers/delete", {"server": str(row.uuid)}).status_code == 403
    assert everything() == before


def test_what_is_no_action_is_no_page(cloud: Any) -> None:
    row, ana = server(cloud), signed_in("ana")
    assert ana.get(f"/servers/do/dance?server={row.uuid}").status_code == 404
    assert ana.get("/servers/do/stop")["Location"] == "/servers"
    assert ana.put(f"/servers/do/stop?server={row.uuid}").status_code == 405
