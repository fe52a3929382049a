"""Acting on servers from their pages: offered by state and driver, refused in words, all without a script."""

from __future__ import annotations

import html
from typing import Any

import pytest
from django.test import Client

from conductor.cell_db.models import ComputeNode, Instance, Migration
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
            {
                "start": "Only available while the server is stopped.",
                "try-again": "The server has run before. Rebuild it instead.",
            },
        ),
        (
            {"vm_state": "stopped"},
            {"start", "hard-reboot", "rebuild"},
            {"stop": "Only available while the server is active or in error."},
        ),
        (
            {"vm_state": "rescued"},
            {"unrescue"},
            {"rescue": "Only available while the server is active, stopped or in error."},
        ),
        ({"vm_state": "soft-delete"}, {"restore", "destroy"}, {"start": "Only available while the server is stopped."}),
        (
            {"vm_state": "active", "task_state": "rebooting"},
            {"hard-reboot", "lock"},
            {"stop": "Another action is in progress: rebooting."},
        ),
        (
            {"vm_state": "active", "is_locked": True},
            {"unlock"},
            {"stop": "The server is locked.", "lock": "The server is already locked."},
        ),
        (
            {"vm_state": "active", "is_locked": True, "locked_by": "admin"},
            set(),
            {"unlock": "An administrator has locked the server."},
        ),
        (
            {"vm_state": "error", "launched_at": None, "host": None, "node": None},
            {"try-again", "lock"},
            {"rebuild": "The server has never run."},
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


def test_actions_that_the_driver_does_not_support_are_not_offered(cloud: Any) -> None:
    row = server(cloud)
    ComputeNode.objects.using("cell1").update(report={"capabilities": {"actions": ["rebuild"]}})
    shown = page(signed_in("ana"), f"/servers/{row.uuid}")
    assert f"/servers/do/rebuild?server={row.uuid}" in shown
    assert (
        '<span class="soft" id="not-pause">The compute driver of the server does not support this action.</span>'
        in shown
    )


def test_a_button_opens_a_confirmation_that_starts_a_workflow(cloud: Any) -> None:
    row, ana = server(cloud), signed_in("ana")
    requested = page(ana, f"/servers/do/stop?server={row.uuid}")
    assert "Stop?" in requested
    assert "Shuts down gracefully" in requested
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
    reported = html.unescape(answer.content.decode())
    assert "1 completed, 1 refused" in reported
    assert f"Cannot 'stop' instance {other.uuid} while it is in vm_state stopped" in reported


def test_a_refusal_is_shown_on_the_form_and_recorded(cloud: Any) -> None:
    row = server(cloud, vm_state="stopped")
    before = everything()
    answer = signed_in("ana").post("/servers/do/stop", {"server": str(row.uuid)})
    assert answer.status_code == 409
    assert "Action failed" in answer.content.decode()
    assert "while it is in vm_state stopped" in answer.content.decode()
    assert everything() == before
    assert AuditRecord.objects.using("default").get(result="refused", user_name="ana").action == "server.stop"


def test_rebuild_asks_for_an_image_and_a_name(cloud: Any) -> None:
    row, ana = server(cloud), signed_in("ana")
    requested = page(ana, f"/servers/do/rebuild?server={row.uuid}")
    assert "simulated-linux" in requested
    image = next(iter(factories.Image.objects.all()))
    form = {"server": str(row.uuid), "image": str(image.uuid), "name": "fresh"}
    assert ana.post("/servers/do/rebuild", form).status_code == 302
    run = WorkflowRun.objects.using("cell1").get()
    assert (run.inputs["values"]["name"], run.inputs["values"]["image"]["image_id"]) == ("fresh", str(image.uuid))


def test_a_typed_password_is_not_rendered_again(cloud: Any) -> None:
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


def test_callers_without_the_right_are_refused(cloud: Any) -> None:
    row = server(cloud)
    before = everything()
    assert signed_in("chi").post("/servers/do/stop", {"server": str(row.uuid)}).status_code == 404
    rea = signed_in("rea")
    assert "server-actions" in page(rea, f"/servers/{row.uuid}")
    assert "/servers/do/" not in page(rea, f"/servers/{row.uuid}")
    assert rea.post("/servers/do/stop", {"server": str(row.uuid)}).status_code == 403
    assert rea.post("/servers/delete", {"server": str(row.uuid)}).status_code == 403
    assert everything() == before


def test_unknown_actions_have_no_page(cloud: Any) -> None:
    row, ana = server(cloud), signed_in("ana")
    assert ana.get(f"/servers/do/dance?server={row.uuid}").status_code == 404
    assert ana.get("/servers/do/stop")["Location"] == "/servers"
    assert ana.put(f"/servers/do/stop?server={row.uuid}").status_code == 405


def resized(cloud: Any, name: str = "web") -> Instance:
    """Return a server whose resize has finished and waits to be confirmed or reverted."""
    row = factories.instance(cloud.ana.context(), name, vm_state="resized")
    Migration.objects.using("cell1").create(
        instance_uuid=row.uuid,
        migration_type="resize",
        status="finished",
        source_host="sim-1",
        source_node="sim-1",
        destination_host="sim-1",
        destination_node="sim-1",
        created_at=factories.ago(60),
        updated_at=factories.ago(60),
    )
    return row


@pytest.mark.parametrize(
    ("action", "flow", "task_state"),
    [
        ("confirm-resize", "confirm_resize", "resize_confirming"),
        ("revert-resize", "revert_resize", "resize_reverting"),
    ],
)
def test_a_resize_is_ended_from_the_banner_of_its_server(cloud: Any, action: str, flow: str, task_state: str) -> None:
    row, ana = resized(cloud), signed_in("ana")
    shown = page(ana, f"/servers/{row.uuid}")
    assert "Confirmation required" in shown
    assert f'action="/servers/do/{action}"' in shown
    answer = ana.post(f"/servers/do/{action}", {"server": str(row.uuid)})
    assert (answer.status_code, answer["Location"]) == (302, f"/servers/{row.uuid}")
    assert now(row).task_state == task_state
    assert WorkflowRun.objects.using("cell1").get().flow == flow
    assert "Confirmation required" not in page(ana, f"/servers/{row.uuid}")


@pytest.mark.parametrize(
    ("action", "title", "task_state"),
    [
        ("confirm-resize", "Confirm resize", "resize_confirming"),
        ("revert-resize", "Revert resize", "resize_reverting"),
    ],
)
def test_resizes_are_ended_from_the_list_too_all_at_once(cloud: Any, action: str, title: str, task_state: str) -> None:
    rows, ana = [resized(cloud, "web-1"), resized(cloud, "web-2")], signed_in("ana")
    shown = page(ana, "/servers")
    assert "2 resized servers need your confirmation." in shown
    assert f'formaction="/servers/do/{action}"' in shown
    uuids = [str(row.uuid) for row in rows]
    assert f"{title}: 2 servers?" in page(ana, f"/servers/do/{action}?server={uuids[0]}&server={uuids[1]}")
    assert ana.post(f"/servers/do/{action}", {"server": uuids}).status_code == 200
    assert [now(row).task_state for row in rows] == [task_state] * 2


def test_the_palette_finds_an_action_by_verb_and_name(cloud: Any) -> None:
    row, ana = resized(cloud, "web-9"), signed_in("ana")
    other = server(cloud)
    for verb in ("confirm", "revert"):
        found = page(ana, f"/search?q={verb} resize")
        assert f'href="/servers/do/{verb}-resize?server={row.uuid}"' in found
        assert f"{verb}-resize?server={other.uuid}" not in found
    assert f'href="/servers/do/stop?server={other.uuid}"' in page(ana, "/search?q=stop web")
    assert f"stop?server={row.uuid}" not in page(ana, "/search?q=stop web-9")
    assert "/servers/do/" not in page(signed_in("rea"), "/search?q=stop web")


def test_a_reader_is_asked_to_confirm_nothing(cloud: Any) -> None:
    row, rea = resized(cloud), signed_in("rea")
    for path in (f"/servers/{row.uuid}", "/servers"):
        assert "confirm-resize" not in page(rea, path)


def test_a_server_is_shelved_and_unshelved(cloud: Any) -> None:
    row, ana = server(cloud), signed_in("ana")
    assert f"/servers/do/shelve?server={row.uuid}" in page(ana, f"/servers/{row.uuid}")
    assert ana.post("/servers/do/shelve", {"server": str(row.uuid)}).status_code == 302
    assert now(row).task_state == "shelving"
    away = server(cloud, vm_state="shelved_offloaded", host=None, node=None)
    assert f"/servers/do/unshelve?server={away.uuid}" in page(ana, f"/servers/{away.uuid}")
    assert ana.post("/servers/do/unshelve", {"server": str(away.uuid)}).status_code == 302
    assert now(away).task_state == "unshelving"


@pytest.mark.parametrize(
    ("action", "flow"), [("migrate", "resize_instance"), ("live-migrate", "live_migrate_instance")]
)
def test_operators_migrate_to_a_host_or_wherever_there_is_room(cloud: Any, action: str, flow: str) -> None:
    factories.host("sim-2")
    row, admin = server(cloud), signed_in("admin")
    assert f"/servers/do/{action}?server={row.uuid}" not in page(signed_in("ana"), f"/servers/{row.uuid}")
    assert signed_in("ana").post(f"/servers/do/{action}", {"server": str(row.uuid)}).status_code == 404
    assert not WorkflowRun.objects.using("cell1").exists()
    requested = page(admin, f"/servers/do/{action}?server={row.uuid}")
    assert '<option value="sim-2">' in requested
    assert '<option value="sim-1">' not in requested
    assert admin.post(f"/servers/do/{action}", {"server": str(row.uuid), "host": "sim-2"}).status_code == 302
    run = WorkflowRun.objects.using("cell1").get()
    assert (run.flow, run.inputs["host"]) == (flow, "sim-2")
