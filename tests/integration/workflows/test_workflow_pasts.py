"""History of a workflow on its pages: log, events, and earlier states."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.db import connections
from django.test import Client

from conductor.journal.models import Event, WorkflowRun
from conductor.services.workflows import step_logs
from tests import factories
from tests.counting import Captured
from tests.fixtures.workflow_callers import caller
from tests.integration.page_clients import signed_in

__all__ = ["caller"]

HREF = re.compile(r'href="([^"]+)" rel="prev"')


def test_logs_are_narrowed_and_downloaded(caller: Any) -> None:
    _, child = factories.build(caller, "web-1")
    error = {"class": "DriverError", "message": "the disk is full"}
    factories.emit(child, "step.started", step="SpawnOnHost", attempt=1)
    factories.emit(child, "step.failed", step="SpawnOnHost", attempt=1, error=error)
    ana = signed_in("ana")
    page = ana.get(f"/workflows/{child.uuid}/logs?level=error").content.decode()
    assert "the disk is full" in page
    assert "begins" not in page
    answer = ana.get(f"/workflows/{child.uuid}/log")
    assert answer["Content-Disposition"] == f'attachment; filename="workflow-{str(child.uuid)[:8]}.log"'
    assert answer.content.decode().splitlines()[1].endswith("“Spawn on host” failed: the disk is full (DriverError)")
    assert ana.get(f"/workflows/{child.uuid}/logs?level=loud").status_code == 400
    assert ana.get(f"/workflows/{child.uuid}/logs?line=first").status_code == 400


def test_a_long_log_ends_with_its_newest_line_and_opens_at_an_older_one(caller: Any) -> None:
    _, child = factories.build(caller, "web-1")
    count = step_logs.MOST_LINES + 60
    of = {"run_uuid": child.uuid, "project_id": child.project_id, "topic": f"wf:{child.uuid}", "kind": "step.progress"}
    lines = [{"step": "SpawnOnHost", "progress": {"message": f"said {number}"}} for number in range(1, count + 1)]
    Event.objects.using("cell1").bulk_create([Event(**of, data=data, created_at=factories.ago(5)) for data in lines])
    ana, path = signed_in("ana"), f"/workflows/{child.uuid}/logs"
    newest, older = (ana.get(f"{path}{query}").content.decode() for query in ("", "?line=30"))
    assert ('id="line-1060"' in newest, 'id="line-60"' in newest, "60 older lines" in newest) == (True, False, True)
    assert ('id="line-10"' in older, 'id="line-1060"' in older, "51 newer lines" in older) == (True, False, True)
    assert ('data-live-topic="wf:' in newest, 'data-live-topic="wf:' in older) == (True, False)
    assert len(ana.get(f"/workflows/{child.uuid}/log").content.splitlines()) == count


def test_a_workflow_is_shown_as_of_an_earlier_event(caller: Any) -> None:
    _, child = factories.build(caller, "web-1", age=12)
    for kind in ("run.started", "step.started", "step.done"):
        factories.emit(child, kind, step="ClaimDestination")
    Event.objects.using("cell1").filter(kind="run.started").update(created_at=factories.ago(11.05))
    Event.objects.using("cell1").filter(kind="step.started").update(created_at=factories.ago(10.95))
    ana = signed_in("ana")
    now = ana.get(f"/workflows/{child.uuid}/steps").content.decode()
    then = ana.get(f"/workflows/{child.uuid}/steps?as_of=1").content.decode()
    assert now.count("planned") < then.count("planned")
    assert "data-live-topic" in now
    assert "data-live-topic" not in then
    assert ana.get(f"/workflows/{child.uuid}?as_of=99").status_code == 400
    assert ana.get(f"/workflows/{child.uuid}?as_of=soon").status_code == 400


def test_the_title_of_a_failure_says_what_failed(caller: Any) -> None:
    error = {"class": "DriverError", "message": "the disk is full", "step": "SpawnOnHost"}
    ends = {"state": "failed (undone)", "finished_at": factories.ago(1), "owner": None, "error": error}
    run = factories.run(caller, "cell1", instance_name="web-1", **ends)
    page = signed_in("ana").get(f"/workflows/{run.uuid}").content.decode()
    title = "Create web-1 failed (undone) in step “Spawn on host”: the disk is full · Novella"
    assert f"<title>{title}</title>" in page
    assert f'<meta property="og:title" content="{title}">' in page
    assert '<meta property="og:description" content="failed (undone) · by ana · ' in page


def test_a_cancelled_workflow_is_not_shown_as_failed(caller: Any) -> None:
    error = {"class": "Cancelled", "message": "not needed any more"}
    ends = {"state": "cancelled", "finished_at": factories.ago(1), "owner": None, "error": error}
    run = factories.run(caller, "cell1", instance_name="web-1", **ends)
    page = signed_in("ana").get(f"/workflows/{run.uuid}").content.decode()
    assert '<div class="note" data-tone="none"><strong>Cancelled: not needed any more</strong>' in page


def test_a_shared_link_shows_anonymous_users_the_products_name_alone(caller: Any) -> None:
    run = factories.run(caller, "cell1", instance_name='a "quoted" <name>')
    path = f"/workflows/{run.uuid}"
    title = "Create a &quot;quoted&quot; &lt;name&gt; · Novella"
    assert f'<meta property="og:title" content="{title}">' in signed_in("ana").get(path).content.decode()
    for who in (Client(), signed_in("chi")):
        page = who.get(path, follow=True).content.decode()
        assert "quoted" not in page
        assert 'property="og:title" content="' in page
    page = Client().get(path, follow=True).content.decode()
    assert '<meta property="og:title" content="Novella">' in page
    assert "og:description" not in page


def say(run: WorkflowRun, numbers: Iterable[int], *, every: float) -> None:
    """Report progress of a run at regular intervals."""
    of = {"run_uuid": run.uuid, "project_id": run.project_id, "topic": f"wf:{run.uuid}", "kind": "step.progress"}
    lines = []
    for number in numbers:
        data = {"step": "SpawnOnHost", "progress": {"message": f"{run.flow} {number}"}}
        lines.append(Event(**of, data=data, created_at=run.created_at + timedelta(seconds=every * number)))
    Event.objects.using(str(run._state.db)).bulk_create(lines)


def asked(client: Any, address: str) -> tuple[str, int]:
    """Return a page, and how many questions it cost."""
    with Captured(connections["cell1"]) as cell, Captured(connections["default"]) as api:
        page = client.get(address).content.decode()
    return page, len(cell) + len(api)


def places(page: str) -> list[int]:
    return [int(place) for place in re.findall(r'as_of=(\d+)" data-open', page)]


def test_each_event_of_a_long_history_is_reached_without_more_queries(caller: Any) -> None:
    parent, child = factories.build(caller, "web-1")
    WorkflowRun.objects.using("cell1").filter(pk=child.pk).update(created_at=parent.created_at)
    child.refresh_from_db()
    ana, path = signed_in("ana"), f"/workflows/{child.uuid}/events"
    say(child, range(10), every=0.001)
    say(parent, range(2), every=0.005)
    asked(ana, path)  # typical durations are read and cached
    few = [asked(ana, f"{path}{query}")[1] for query in ("", "?as_of=3")]
    say(child, range(10, 5000), every=0.001)
    say(parent, range(2, 1000), every=0.005)
    (newest, many), (then, many_then) = (asked(ana, f"{path}{query}") for query in ("", "?as_of=3000"))
    assert [many, many_then] == few
    assert (places(newest), places(then)) == ([*range(5801, 6001)], [*range(2995, 3195)])
    assert "event 3000 of 6000" in then
    assert "build_in_cell 2499" in then[then.index('class="here"') :].partition("</tr>")[0]
    assert ana.get(f"/workflows/{child.uuid}?as_of=5999").status_code == 200
    assert (ana.get(f"{path}?as_of=6001").status_code, ana.get(f"{path}?from=0").status_code) == (400, 400)
    seen: list[str] = []  # page by page, from the end
    while newest:
        seen = re.findall(r"build_in_cell (\d+)<", newest) + seen
        older = HREF.search(newest.partition("pager")[2])
        newest = asked(ana, path + older[1])[0] if older else ""
    assert seen == [str(number) for number in range(5000)]
