"""Who did what in a project: its workflows and what is on record beside them, in one list, newest first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from conductor.core.context import RequestContext
from conductor.core.states import RunState
from conductor.services import audit, flow_lists
from conductor.services.audit import AuditQuery, AuditView
from conductor.services.flow_lists import ListQuery
from conductor.services.values import Page, RunView
from portal.pages import faces, page_lengths, stories
from portal.pages.access import PageRequest, signed_in
from portal.pages.faces import Face

PAGE_SIZE = 50
RESULT_FACES = {"done": Face("good", "done"), "refused": Face("bad", "refused")}
GIVEN = ("result", "action", "runs", "records", "rows")
NONE: Page[Any] = Page([], has_more=False)


@dataclass(frozen=True)
class Line:
    """One thing that was asked for: a workflow, or a record of the audit log."""

    id: str
    moment: datetime
    face: Face
    by: str
    request_id: str
    instance_uuid: str
    run_uuid: str
    action: str = ""
    intent: str = ""
    subject: str = ""
    on_behalf_of: str = ""
    why: str = ""


@require_safe
@signed_in
def activity(request: PageRequest) -> HttpResponse:
    """Each page goes on after the last workflow and the last record that the one before has shown."""
    given = {name: request.GET.get(name, "").strip()[:255] for name in GIVEN}
    if given["result"] not in ("", *RESULT_FACES):
        given["result"] = ""
    size = page_lengths.rows_of(given, PAGE_SIZE)
    runs, records = _runs(request.asker, given, size), _records(request.asker, given, size)
    lines = [_of_run(run) for run in runs.items] + [_of_record(record) for record in records.items]
    lines.sort(key=lambda line: line.moment, reverse=True)
    shown = lines[:size]
    has_more = runs.has_more or records.has_more or len(lines) > size
    kept = {**{name: given[name] for name in ("result", "action") if given[name]}, **page_lengths.kept(given)}
    is_further = bool(given["runs"] or given["records"])
    context = {
        "lines": shown,
        "given": given,
        "next_url": _url({**kept, **_after(shown, given)}) if has_more else "",
        "first_url": _url(kept) if is_further else "",
        **page_lengths.other(reverse("activity"), given, PAGE_SIZE, has_others=has_more or is_further),
        "missing_cells": {**runs.missing_cells, **records.missing_cells},
    }
    return render(request, "project/_activity.html" if request.htmx else "project/activity.html", context)


def _runs(asker: RequestContext, given: dict[str, str], size: int) -> Page[RunView]:
    """The project's workflows; none that fits where only refusals are wanted, or no kind has such a name."""
    wanted = given["action"].lower()
    kinds = tuple(flow for flow, words in faces.FLOW_WORDS.items() if wanted in f"{flow} {words}".lower())
    if given["result"] == "refused" or not kinds:
        return NONE
    states = (str(RunState.DONE),) if given["result"] else ()
    chosen = {"flow": kinds} if wanted else {}
    query = ListQuery(chosen=chosen, states=states, limit=size, marker=given["runs"])
    return flow_lists.search(asker, query).page


def _records(asker: RequestContext, given: dict[str, str], size: int) -> Page[AuditView]:
    action = given["action"]
    named = action if "." in action or not action else f"server.{action}"
    query = AuditQuery(
        action=named, result=given["result"], project_id=asker.project_id, limit=size, marker=given["records"]
    )
    return audit.list_records(asker, query)


def _of_run(run: RunView) -> Line:
    story = stories.of(run)
    said = (run.error or {}).get("message", "")
    return Line(
        run.uuid, run.created_at, story.face, run.user_name, run.request_id, run.instance_uuid, run.uuid,
        intent=story.intent, subject=story.subject, why=said,
    )  # fmt: skip


def _of_record(record: AuditView) -> Line:
    face = RESULT_FACES.get(record.result, Face("none", record.result))
    return Line(
        record.uuid, record.created_at, face, record.user_name, record.request_id, record.instance_uuid,
        record.run_uuid, action=record.action, on_behalf_of=record.on_behalf_of,
        why=record.reason or (record.error or {}).get("message", ""),
    )  # fmt: skip


def _after(shown: list[Line], given: dict[str, str]) -> dict[str, str]:
    """Where both lists go on."""
    runs = [line.id for line in shown if not line.action]
    records = [line.id for line in shown if line.action]
    places = {"runs": runs[-1] if runs else given["runs"], "records": records[-1] if records else given["records"]}
    return {name: place for name, place in places.items() if place}


def _url(query: dict[str, str]) -> str:
    return f"{reverse('activity')}?{urlencode(query)}"
