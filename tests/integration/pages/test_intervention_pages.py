"""Buttons and forms of interventions, without a browser: visibility, fields, and messages of refusals."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from conductor.db.transactions import write_tx
from conductor.journal.models import AuditRecord, WorkflowRun
from conductor.rpc import outbox
from tests import factories
from tests.fixtures.page_text import text
from tests.integration.interventions import snapshot
from tests.integration.page_clients import signed_in

ALIAS = "cell1"


@pytest.fixture
def run(people: Any) -> WorkflowRun:
    factories.cells()
    with write_tx(ALIAS):
        wanted = outbox.NewRun(
            flow="build_in_cell", action="create", context=people.ana.context(), resources=["thing:1"]
        )
        return outbox.open_run(ALIAS, wanted)


def revision(html: str) -> str:
    found = re.search(r'name="revision" value="([0-9a-f]{16})"', html)
    assert found
    return found[1]


def test_a_member_sees_what_a_member_may(run: WorkflowRun) -> None:
    html = text(signed_in("ana").get(f"/workflows/{run.uuid}"))
    assert f'href="/workflows/{run.uuid}/do/cancel"' in html
    assert "Force completion" not in html
    assert f"/workflows/{run.uuid}/do/cancel" not in text(signed_in("rea").get(f"/workflows/{run.uuid}"))


def test_a_disabled_button_shows_the_reason(run: WorkflowRun) -> None:
    html = text(signed_in("admin").get(f"/workflows/{run.uuid}"))
    assert "Nothing is left to clean up." in html
    assert "Unavailable actions (7)" in html


def test_the_form_cancels_and_says_that_it_was_requested(run: WorkflowRun) -> None:
    ana = signed_in("ana")
    requested = f"/workflows/{run.uuid}/do/cancel"
    answer = ana.post(requested, {"reason": "not wanted", "revision": revision(text(ana.get(requested)))}, follow=True)
    assert "Cancel workflow: request accepted" in text(answer)
    assert "cancel requested" in text(answer)
    audit = text(ana.get(f"/workflows/{run.uuid}/audit"))
    assert "workflow.cancel" in audit
    assert "not wanted" in audit


@pytest.mark.parametrize(
    ("form", "status", "sentence"),
    [
        ({"reason": " ", "revision": ""}, 400, "reason"),
        ({"reason": "x", "revision": "0" * 16}, 412, "The workflow has changed since"),
    ],
)
def test_a_form_that_does_not_fit_changes_nothing_and_says_so(
    run: WorkflowRun, form: dict[str, str], status: int, sentence: str
) -> None:
    ana, before = signed_in("ana"), snapshot()
    answer = ana.post(f"/workflows/{run.uuid}/do/cancel", form)
    assert (answer.status_code, sentence in text(answer)) == (status, True)
    assert snapshot() == before


def test_the_form_to_reschedule_shows_the_next_hosts(run: WorkflowRun) -> None:
    made, place = factories.some_decision(), f"/workflows/{run.uuid}/do/reschedule"
    chosen = [{"host": host, "cell": "cell1"} for host in ("sim-1", "sim-4", "sim-2")]
    summary = made["summary"] | {
        "instance_uuids": [str(run.instance_uuid)],
        "fates": {str(run.instance_uuid): {"sim-4": "claim failed"}},
    }
    factories.decision(run, summary=summary, details=made["details"], selections=[chosen])
    assert "Remaining alternates, in order: sim-2." in text(signed_in("admin").get(place))
    assert "sim-2" not in text(signed_in("ana").get(place))


def test_forbidden_interventions_are_refused_in_a_sentence(run: WorkflowRun) -> None:
    admin, before = signed_in("admin"), snapshot()
    page = text(admin.get(f"/workflows/{run.uuid}/do/undo"))
    assert ("Nothing is left to clean up." in page, 'name="reason"' in page) == (True, False)  # nothing to fill in vain
    answer = admin.post(f"/workflows/{run.uuid}/do/undo", {"reason": "x"})
    assert answer.status_code == 409
    assert "Nothing is left to clean up." in text(answer)
    assert signed_in("ana").post(f"/workflows/{run.uuid}/do/undo", {"reason": "x"}).status_code == 403
    assert snapshot() == before
    assert AuditRecord.objects.using(ALIAS).count() == 2


def test_an_intervention_under_four_eyes_says_so_and_shows_pending_requests(run: WorkflowRun, settings: Any) -> None:
    settings.NOVELLA_SECOND_PERSON = True
    WorkflowRun.objects.using(ALIAS).update(state="needs operator", owner=None)
    admin, place = signed_in("admin"), f"/workflows/{run.uuid}"
    assert "Another operator must approve this action first." in text(admin.get(f"{place}/do/force"))
    form = {"reason": "it is <gone>", "confirm": str(run.uuid)[:8]}
    page = text(admin.post(f"{place}/do/force", form, follow=True))
    assert "Force completion requires another operator&#x27;s approval." in page
    assert "admin requested approval: Force completion" in page
    assert "it is &lt;gone&gt;" in page
    refused = admin.post(f"{place}/do/agree", {"reason": "me"})
    assert (refused.status_code, "You requested this." in text(refused)) == (403, True)
    assert "admin: Force completion. Reason: it is &lt;gone&gt;" in text(admin.get(f"{place}/do/decline"))
    assert "nother operator" not in text(signed_in("ana").get(place))
    assert f"/workflows/{run.uuid}/do/decline" in text(admin.get("/triage"))
    admin.post(f"{place}/do/decline", {"reason": "not now"})
    assert "nother operator" not in text(admin.get(place))
    assert WorkflowRun.objects.using(ALIAS).get().state == "needs operator"


def test_other_projects_and_unknown_interventions_are_not_found(run: WorkflowRun) -> None:
    assert signed_in("chi").get(f"/workflows/{run.uuid}/do/cancel").status_code == 404
    assert signed_in("ana").get(f"/workflows/{run.uuid}/do/explode").status_code == 404


def test_a_form_without_its_token_is_refused(run: WorkflowRun) -> None:
    ana = signed_in("ana")
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = ana.cookies
    assert strict.post(f"/workflows/{run.uuid}/do/cancel", {"reason": "x"}).status_code == 403


def test_reasons_are_text_on_every_page(run: WorkflowRun) -> None:
    ana = signed_in("ana")
    ana.post(f"/workflows/{run.uuid}/do/cancel", {"reason": "<script>x</script>"})
    for tab in ("", "/audit", "/events", "/locks"):
        assert "<script>x" not in text(ana.get(f"/workflows/{run.uuid}{tab}"))


def test_operators_see_when_each_owner_last_responded(people: Any, settings: Any) -> None:
    settings.NOVELLA_LEASE_SECONDS = 10.0
    factories.cells()
    _, child = factories.build(people.ana.context(), "web-1")
    factories.host("sim-1", seen=600)
    rows = WorkflowRun.objects.using(ALIAS).filter(pk=child.pk)
    path = f"/workflows/{child.uuid}"
    assert "host unresponsive since 20" in text(signed_in("admin").get(path))
    assert "host unresponsive" not in text(signed_in("ana").get(path))
    rows.update(owner="worker-9", state="running", lease_expires_at=factories.ago(60))
    form = text(signed_in("admin").get(f"{path}/do/take-over"))
    assert "worker-9" in form
    assert re.search(r"Last heartbeat</dt><dd><span[^>]*>1 min</span> ago", form)
