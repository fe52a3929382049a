"""The panel of a live migration: how it gets on, what may be ordered of it, and who ordered what."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from conductor.cell_db.models import ComputeNode, Migration
from conductor.journal.models import Event, WorkflowRun
from conductor.services import live_orders, migration_offers, migration_panels
from tests import factories
from tests.compute_rows import make_host
from tests.integration.page_clients import signed_in
from tests.integration.test_workflow_pages import asker

__all__ = ["asker"]


@pytest.fixture
def moving(asker: Any, monkeypatch: pytest.MonkeyPatch) -> WorkflowRun:
    """A guest that moves, and whose source has reported five times, a second apart and just now."""
    uuid, begun = uuid4(), factories.ago(6)
    monkeypatch.setattr(migration_panels, "database_time", lambda alias: begun + timedelta(seconds=5))
    names = ("LookAtSource", "PickDestination", "PrepareAtDestination", "MoveLive", "FinishAtDestination")
    plan = [{"name": name, "title": name, "lane": "Cell conductor", "event": ""} for name in names]
    server = factories.instance(asker, "web-1", task_state="migrating")
    make_host("cell1", "sim-1")
    run = factories.run(
        asker, "cell1", flow="live_migrate_instance", action="live-migration", instance_uuid=server.uuid, plan=plan,
        instance_name="web-1", inputs={"migration_uuid": str(uuid)}, position=3, owner=None, state="waiting",
        waits_for={"cause": "host", "detail": "sim-1"}, age=30,
    )  # fmt: skip
    for index in range(3):
        factories.step(run, index, 29 - index, 28 - index)
    factories.step(run, 3, 26, None, host="sim-1", state="waiting")
    Migration.objects.using("cell1").create(
        uuid=uuid, instance_uuid=server.uuid, run_uuid=run.uuid, migration_type="live-migration", status="running",
        source_host="sim-1", destination_host="sim-2", project_id=asker.project_id, user_id=asker.user_id,
        created_at=factories.ago(30), updated_at=factories.ago(1),
    )  # fmt: skip
    for number in range(5):
        figures = {"memory_total": 1000, "memory_processed": 100 * number, "memory_remaining": 1000 - 100 * number}
        factories.tell(run, "step.progress", step="MoveLive", progress={"message": "copying"}, figures=figures)
    for number, told in enumerate(Event.objects.using("cell1").filter(kind="step.progress").order_by("pk")):
        Event.objects.using("cell1").filter(pk=told.pk).update(created_at=begun + timedelta(seconds=number))
    return run


def test_a_migration_is_judged_and_stopped_from_its_page(moving: WorkflowRun) -> None:
    admin, ana = signed_in("admin"), signed_in("ana")
    page = admin.get(f"/workflows/{moving.uuid}").content.decode()
    assert re.search(r"Converging: about \d+–\d+ s", page)
    assert "sim-1 → sim-2" in page
    assert "Converging" in admin.get(f"/servers/{moving.instance_uuid}").content.decode()
    mine = ana.get(f"/workflows/{moving.uuid}").content.decode()
    assert "Converging" in mine
    assert "sim-" not in mine
    assert "It takes the role manager." in mine
    refused = ana.post(f"/workflows/{moving.uuid}/migration/abort")
    assert refused.status_code == 200
    assert not WorkflowRun.objects.using("cell1").filter(flow="abort_live_migration").exists()
    assert admin.get(f"/workflows/{moving.uuid}/migration/explode").status_code == 404
    assert admin.post(f"/workflows/{moving.uuid}/migration/abort").status_code == 302
    assert WorkflowRun.objects.using("cell1").get(flow="abort_live_migration").inputs == {
        "live_run_uuid": str(moving.uuid)
    }


def test_it_is_said_what_takes_long_and_what_a_switch_by_post_copy_risks(moving: WorkflowRun) -> None:
    admin, said = signed_in("admin"), Event.objects.using("cell1").filter(kind="step.progress").order_by("pk")
    assert "The guest pauses until the rest has arrived" in admin.get(f"/workflows/{moving.uuid}").content.decode()
    for number, told in enumerate(said):
        told.data["figures"] |= {"memory_remaining": 900, "memory_pass": number + 1, "is_post_copy_forced": 1}
        told.data["figures"] |= {"downtime_ms": 4000, "downtime_limit_ms": 500, "throttle_percent": 20 * number}
        told.save(using="cell1")
    page = admin.get(f"/workflows/{moving.uuid}").content.decode()
    assert "Not converging: the guest changes 75 B/s, the link moves 75 B/s." in page
    for words in ("4000 ms", "500 ms", "80 %", "it cannot be stopped then, and a broken connection loses it"):
        assert words in page
    assert "The guest pauses until" not in page


NOT_YET, SWITCHED = "The guest does not move yet.", "The guest has switched."


@pytest.mark.parametrize(
    ("status", "told", "others", "abort"),
    [
        ("preparing", None, NOT_YET, ""),
        ("running", None, NOT_YET, NOT_YET),
        ("running", {}, "", ""),
        ("running", {"is_post_copy": 1}, SWITCHED, live_orders.NO_WAY_BACK),
        ("post-migrating", {}, SWITCHED, SWITCHED),
    ],
)
def test_only_what_would_have_an_effect_is_offered(
    moving: WorkflowRun, people: Any, status: str, told: dict[str, int] | None, others: str, abort: str
) -> None:
    admin, said = people.admin.context(), Event.objects.using("cell1").filter(kind="step.progress")
    Migration.objects.using("cell1").update(status=status)
    if told is None:
        said.delete()
    for event in said:
        event.data["figures"] |= told or {}
        event.save(using="cell1")

    def why_not() -> dict[str, str]:
        panel = migration_panels.of_run(admin, str(moving.uuid))
        assert panel is not None
        return {offer.id: offer.why_not for offer in panel.offers}

    names = ("downtime", "throttle", "post-copy", "finish")
    assert why_not() == {**dict.fromkeys(names, others), "abort": abort}
    if not others:
        for name in ("finish", "throttle"):
            migration_panels.order(admin, str(moving.uuid), name, 40)
        ComputeNode.objects.using("cell1").update(report={"capabilities": {"actions": ["live_downtime"]}})
        assert why_not() == {
            "downtime": "", "post-copy": live_orders.CANNOT, "abort": "",
            **dict.fromkeys(("throttle", "finish"), migration_offers.REQUESTED),
        }  # fmt: skip


def test_a_move_is_steered_from_its_page_and_shows_who_did_it(moving: WorkflowRun) -> None:
    admin, ana = signed_in("admin"), signed_in("ana")
    asked = f"/workflows/{moving.uuid}/migration"
    for told in Event.objects.using("cell1").filter(kind="step.progress"):
        told.data["figures"] |= {"downtime_ms": 1927, "downtime_limit_ms": 500, "throttle_percent": 20}
        told.save(using="cell1")
    form = admin.get(f"{asked}/downtime").content.decode()
    assert "Now it would be 1927 ms, and 500 ms are allowed." in form
    assert re.search(r'name="milliseconds"[^>]* min="1" max="60000" value="2500"', form)
    assert "Now 20 percent are taken away." in admin.get(f"{asked}/throttle").content.decode()
    for amount in ("0", "-1", "1000000000", "forty", "", "1.5", "\u0664\u0660"):
        refused = admin.post(f"{asked}/downtime", {"milliseconds": amount})
        assert refused.status_code == 400, amount
        assert "It must be a whole number from 1 to 60000." in refused.content.decode()
    assert ana.post(f"{asked}/throttle", {"percent": "40"}).status_code == 200
    orders = WorkflowRun.objects.using("cell1").filter(flow="steer_live_migration")
    assert not orders.exists()
    for name, field, amount in (("throttle", "percent", "40"), ("downtime", "milliseconds", "1500")):
        assert admin.post(f"{asked}/{name}", {field: amount}).status_code == 302
    assert [(one.action, one.inputs["amount"]) for one in orders.order_by("pk")] == [
        ("live_migration_throttle", 40),
        ("live_migration_downtime", 1500),
    ]
    orders.filter(action="live_migration_throttle").update(state="done")
    orders.filter(action="live_migration_downtime").update(state="failed (undone)", error={"message": "it is too late"})
    page = " ".join(re.sub("<[^>]*>", " ", ana.get(f"/workflows/{moving.uuid}").content.decode()).split())
    assert re.search(r"40 % of its processors taken away done by admin, \d\d:\d\d:\d\d ", page)
    assert re.search(r"Allowed to stand still for 1500 ms failed by admin, [\d:]+ it is too late", page)
    order = ana.get(f"/workflows/{orders.earliest('pk').uuid}").content.decode()
    assert f'<a href="/workflows/{moving.uuid}">Open the move</a>' in order
    assert "Open the move" not in ana.get(f"/workflows/{moving.uuid}").content.decode()


def test_an_abort_that_was_asked_for_is_no_failure(moving: WorkflowRun) -> None:
    admin = signed_in("admin")
    admin.post(f"/workflows/{moving.uuid}/migration/abort")
    WorkflowRun.objects.using("cell1").filter(flow="abort_live_migration").update(state="done")
    Migration.objects.using("cell1").update(status="cancelled")
    error = {
        "class": "MigrationAborted",
        "message": "The live migration was aborted before the switch.",
        "step": "MoveLive",
    }
    moving.steps.using("cell1").filter(name="MoveLive").update(state="failed", error=error)
    WorkflowRun.objects.using("cell1").filter(pk=moving.pk).update(
        state="cancelled", error=error, finished_at=factories.ago(0), owner=None
    )
    page = admin.get(f"/workflows/{moving.uuid}").content.decode()
    assert "It was stopped by admin; the guest goes on at its source." in page
    assert "It was cancelled: The live migration was aborted before the switch." in page
    shown = page[page.index('id="workflow-cause"') : page.index('id="workflow-cause"') + 500]
    panel = page[page.index('id="migration"') : page.index("</section>", page.index('id="migration"'))]
    assert 'data-tone="bad"' not in shown + panel


def test_what_is_over_offers_nothing(moving: WorkflowRun) -> None:
    Migration.objects.using("cell1").update(status="completed")
    WorkflowRun.objects.using("cell1").filter(pk=moving.pk).update(state="done", finished_at=factories.ago(0))
    page = signed_in("admin").get(f"/workflows/{moving.uuid}").content.decode()
    assert "The guest runs at its destination." in page
    assert "Finish now" not in page
