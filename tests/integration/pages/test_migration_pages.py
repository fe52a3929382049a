"""The panel of a live migration: progress, permitted actions, and their actors."""

from __future__ import annotations

import re
from typing import Any

import pytest

from conductor.cell_db.models import ComputeNode, Migration
from conductor.journal.models import Event, WorkflowRun
from conductor.services.server_migrations import live_interventions, permitted_actions, progress
from tests import factories
from tests.fixtures.migrations import moving
from tests.fixtures.workflow_callers import caller
from tests.integration.page_clients import signed_in

__all__ = ["caller", "moving"]


def test_a_migration_is_judged_and_stopped_from_its_page(moving: WorkflowRun) -> None:
    admin, ana = signed_in("admin"), signed_in("ana")
    page = admin.get(f"/workflows/{moving.uuid}").content.decode()
    assert re.search(r"Converging: about \d+–\d+ s", page)
    assert "sim-1 → sim-2" in page
    assert "Converging" in admin.get(f"/servers/{moving.instance_uuid}").content.decode()
    mine = ana.get(f"/workflows/{moving.uuid}").content.decode()
    assert "Converging" in mine
    assert "sim-" not in mine
    assert "The role manager is required." in mine
    refused = ana.post(f"/workflows/{moving.uuid}/migration/abort")
    assert refused.status_code == 200
    assert not WorkflowRun.objects.using("cell1").filter(flow="abort_live_migration").exists()
    assert admin.get(f"/workflows/{moving.uuid}/migration/explode").status_code == 404
    assert admin.post(f"/workflows/{moving.uuid}/migration/abort").status_code == 302
    assert WorkflowRun.objects.using("cell1").get(flow="abort_live_migration").inputs == {
        "live_run_uuid": str(moving.uuid)
    }


def test_the_page_shows_what_takes_long_and_the_risk_of_post_copy(moving: WorkflowRun) -> None:
    admin, rows = signed_in("admin"), Event.objects.using("cell1").filter(kind="step.progress").order_by("pk")
    assert "until the remaining memory has arrived" in admin.get(f"/workflows/{moving.uuid}").content.decode()
    for number, reported in enumerate(rows):
        reported.data["figures"] |= {"memory_remaining": 900, "memory_pass": number + 1, "is_post_copy_forced": 1}
        reported.data["figures"] |= {"downtime_ms": 4000, "downtime_limit_ms": 500, "throttle_percent": 20 * number}
        reported.save(using="cell1")
    page = admin.get(f"/workflows/{moving.uuid}").content.decode()
    assert "Not converging: the server changes 75 B/s, the link moves 75 B/s." in page
    for words in ("4000 ms", "500 ms", "80 %", "stopped then, and the server is lost if the connection breaks"):
        assert words in page
    assert "The server pauses" not in page


NOT_YET, SWITCHED = "The server is not moving yet.", "The server has switched over."


@pytest.mark.parametrize(
    ("status", "reported", "others", "abort"),
    [
        ("preparing", None, NOT_YET, ""),
        ("running", None, NOT_YET, NOT_YET),
        ("running", {}, "", ""),
        ("running", {"is_post_copy": 1}, SWITCHED, live_interventions.NO_WAY_BACK),
        ("post-migrating", {}, SWITCHED, SWITCHED),
    ],
)
def test_only_what_would_have_an_effect_is_offered(
    moving: WorkflowRun, people: Any, status: str, reported: dict[str, int] | None, others: str, abort: str
) -> None:
    admin, rows = people.admin.context(), Event.objects.using("cell1").filter(kind="step.progress")
    Migration.objects.using("cell1").update(status=status)
    if reported is None:
        rows.delete()
    for event in rows:
        event.data["figures"] |= reported or {}
        event.save(using="cell1")

    def why_not() -> dict[str, str]:
        panel = progress.of_run(admin, str(moving.uuid))
        assert panel is not None
        return {action.id: action.why_not for action in panel.actions}

    names = ("downtime", "throttle", "post-copy", "finish")
    assert why_not() == {**dict.fromkeys(names, others), "abort": abort}
    if not others:
        for name in ("finish", "throttle"):
            progress.order(admin, str(moving.uuid), name, 40)
        ComputeNode.objects.using("cell1").update(report={"capabilities": {"actions": ["live_downtime"]}})
        assert why_not() == {
            "downtime": "", "post-copy": live_interventions.CANNOT, "abort": "",
            **dict.fromkeys(("throttle", "finish"), permitted_actions.REQUESTED),
        }  # fmt: skip


def test_a_migration_is_steered_from_its_page_which_shows_the_operator(moving: WorkflowRun) -> None:
    admin, ana = signed_in("admin"), signed_in("ana")
    requested = f"/workflows/{moving.uuid}/migration"
    for reported in Event.objects.using("cell1").filter(kind="step.progress"):
        reported.data["figures"] |= {"downtime_ms": 1927, "downtime_limit_ms": 500, "throttle_percent": 20}
        reported.save(using="cell1")
    form = admin.get(f"{requested}/downtime").content.decode()
    assert "The estimated pause is 1,927 ms; 500 ms are allowed." in form
    assert re.search(r'name="milliseconds"[^>]* min="1" max="60000" value="2500"', form)
    assert "20 percent are withheld now." in admin.get(f"{requested}/throttle").content.decode()
    for amount in ("0", "-1", "1000000000", "forty", "", "1.5", "\u0664\u0660"):
        refused = admin.post(f"{requested}/downtime", {"milliseconds": amount})
        assert refused.status_code == 400, amount
        assert "It must be a whole number from 1 to 60,000." in refused.content.decode()
    assert ana.post(f"{requested}/throttle", {"percent": "40"}).status_code == 200
    orders = WorkflowRun.objects.using("cell1").filter(flow="steer_live_migration")
    assert not orders.exists()
    for name, field, amount in (("throttle", "percent", "40"), ("downtime", "milliseconds", "1500")):
        assert admin.post(f"{requested}/{name}", {field: amount}).status_code == 302
    assert [(one.action, one.inputs["amount"]) for one in orders.order_by("pk")] == [
        ("live_migration_throttle", 40),
        ("live_migration_downtime", 1500),
    ]
    orders.filter(action="live_migration_throttle").update(state="done")
    orders.filter(action="live_migration_downtime").update(state="failed (undone)", error={"message": "it is too late"})
    page = " ".join(re.sub("<[^>]*>", " ", ana.get(f"/workflows/{moving.uuid}").content.decode()).split())
    assert re.search(r"40 % of CPU time withheld done by admin, \d\d:\d\d:\d\d ", page)
    assert re.search(r"Allowed downtime: 1500 ms failed by admin, [\d:]+ it is too late", page)
    order = ana.get(f"/workflows/{orders.earliest('pk').uuid}").content.decode()
    assert f'<a href="/workflows/{moving.uuid}">Open migration workflow</a>' in order
    assert "Open migration workflow" not in ana.get(f"/workflows/{moving.uuid}").content.decode()


def test_an_abort_that_was_requested_is_no_failure(moving: WorkflowRun) -> None:
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
    assert "The migration was stopped by admin. The server still runs at its source." in page
    assert "Cancelled: The live migration was aborted before the switch." in page
    shown = page[page.index('id="workflow-cause"') : page.index('id="workflow-cause"') + 500]
    panel = page[page.index('id="migration"') : page.index("</section>", page.index('id="migration"'))]
    assert 'data-tone="bad"' not in shown + panel


def test_a_finished_workflow_has_no_interventions(moving: WorkflowRun) -> None:
    Migration.objects.using("cell1").update(status="completed")
    WorkflowRun.objects.using("cell1").filter(pk=moving.pk).update(state="done", finished_at=factories.ago(0))
    page = signed_in("admin").get(f"/workflows/{moving.uuid}").content.decode()
    assert "The server runs at its destination." in page
    panel = page[page.index('id="migration"') : page.index("</section>", page.index('id="migration"'))]
    assert "Force completion" not in panel
