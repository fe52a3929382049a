"""Activity of a project: its workflows and audit records in one list, newest first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from conductor.core.context import RequestContext
from conductor.core.page import Page
from conductor.core.states import RunState
from conductor.services.audit import audit, targets
from conductor.services.audit.audit import AuditQuery, AuditView
from conductor.services.workflows import lists
from conductor.services.workflows.lists import WorkflowListQuery
from conductor.services.workflows.types import RunView
from portal.pages import page_lengths, status_badges
from portal.pages.permissions import PageRequest, signed_in
from portal.pages.resource_pages.catalog import BY_ID
from portal.pages.resource_pages.views import item_url
from portal.pages.status_badges import StatusBadge
from portal.pages.timeline import presenter as workflow_presenter

PAGE_SIZE = 50
RESULT_BADGES = {"done": StatusBadge("good", "done"), "refused": StatusBadge("bad", "refused")}
GIVEN = ("kind", "result", "action", "runs", "records", "rows")
SERVER = targets.SERVER
# Names of kinds of resources that members change and that have no page of their own.
NOUNS: Mapping[str, tuple[str, str]] = {
    "volume_group": ("volume group", "Volume groups"),
    "group_snapshot": ("group snapshot", "Group snapshots"),
    "volume_transfer": ("volume transfer", "Volume transfers"),
    "volume_attachment": ("volume attachment", "Volume attachments"),
    "subnet_pool": ("subnet pool", "Subnet pools"),
    "address_scope": ("address scope", "Address scopes"),
    "qos_policy": ("QoS policy", "QoS policies"),
    "rbac_policy": ("sharing of a network", "Sharing of networks"),
    "access_rule": ("access rule", "Access rules"),
    "credential": ("stored credential", "Stored credentials"),
    targets.EC2: ("EC2 credential", "EC2 credentials"),
    "trust": ("trust", "Trusts"),
}
_PAGE_IDS = {"security_group_rule": "security-rules", "application_credential": "credentials"}
PAGES = {
    kind: BY_ID[_PAGE_IDS.get(kind, f"{kind.replace('_', '-')}s")]
    for kind in targets.KINDS
    if kind not in NOUNS and kind != SERVER
}
KINDS = {
    SERVER: "Servers",
    **{kind: resource.title for kind, resource in PAGES.items()},
    **{kind: title for kind, (_, title) in NOUNS.items()},
}
OF_A_PERSON = (targets.KEY_PAIR, "application_credential")
NONE: Page[Any] = Page([], has_more=False)


@dataclass(frozen=True)
class ActivityTarget:
    """The target of a record; `url` is empty when it does not exist any more."""

    noun: str
    name: str
    url: str


@dataclass(frozen=True)
class ActivityEntry:
    """An entry of the list: a workflow, or an audit record."""

    id: str
    moment: datetime
    badge: StatusBadge
    by: str
    request_id: str
    instance_uuid: str
    run_uuid: str
    action: str = ""
    intent: str = ""
    subject: str = ""
    on_behalf_of: str = ""
    why: str = ""
    thing: ActivityTarget | None = None


@require_safe
@signed_in
def activity(request: PageRequest) -> HttpResponse:
    """Show the list. Each page continues after the last workflow and the last record of the one before."""
    given = {name: request.GET.get(name, "").strip()[:255] for name in GIVEN}
    for name, known in (("result", RESULT_BADGES), ("kind", KINDS)):
        given[name] = given[name] if given[name] in known else ""
    size = page_lengths.rows_of(given, PAGE_SIZE)
    runs, records = _runs(request.caller, given, size), _records(request.caller, given, size)
    there = _openable(request.caller, records.items)
    lines = [_of_run(run) for run in runs.items] + [
        _of_record(record, is_there=record.uuid in there) for record in records.items
    ]
    lines.sort(key=lambda line: line.moment, reverse=True)
    shown = lines[:size]
    has_more = runs.has_more or records.has_more or len(lines) > size
    kept = {**{name: given[name] for name in ("kind", "result", "action") if given[name]}, **page_lengths.kept(given)}
    is_further = bool(given["runs"] or given["records"])
    context = {
        "lines": shown,
        "given": given,
        "kinds": KINDS.items(),
        "next_url": _url({**kept, **_after(shown, given)}) if has_more else "",
        "first_url": _url(kept) if is_further else "",
        **page_lengths.other(reverse("activity"), given, PAGE_SIZE, has_others=has_more or is_further),
        "missing_cells": {**runs.missing_cells, **records.missing_cells},
    }
    return render(request, "audit/_activity.html" if request.htmx else "audit/activity.html", context)


def _runs(caller: RequestContext, given: dict[str, str], size: int) -> Page[RunView]:
    """Return the project's workflows; none if the filter wants refusals, or a kind without workflows."""
    wanted, kind = given["action"].lower(), given["kind"]
    named = [flow for flow, words in status_badges.FLOW_WORDS.items() if wanted in f"{flow} {words}".lower()]
    flows = tuple(flow for flow in named if not kind or _is_about(flow, kind))
    if given["result"] == "refused" or not flows:
        return NONE
    states = (str(RunState.DONE),) if given["result"] else ()
    chosen = {"flow": flows} if wanted or kind else {}
    query = WorkflowListQuery(chosen=chosen, states=states, limit=size, marker=given["runs"])
    return lists.search(caller, query).page


def _records(caller: RequestContext, given: dict[str, str], size: int) -> Page[AuditView]:
    action = given["action"]
    is_whole = "." in action
    query = AuditQuery(
        action=action if is_whole else "",
        verb="" if is_whole else action,
        kind=given["kind"],
        result=given["result"],
        project_id=caller.project_id,
        without_accepted_actions=True,
        limit=size,
        marker=given["records"],
    )
    return audit.list_records(caller, query)


def _is_about(flow: str, kind: str) -> bool:
    """Whether a flow acts on this kind of resource; flows that `targets.FLOWS` does not list act on servers."""
    return next((other for other, flows in targets.FLOWS.items() if flow in flows), SERVER) == kind


def _openable(caller: RequestContext, records: list[AuditView]) -> set[str]:
    """Return the records whose target the caller could still open. Some kinds are visible only to their user."""
    messages = [one for one in records if one.subject.get("kind") in PAGES]
    mine = [one for one in messages if one.subject["kind"] not in OF_A_PERSON or one.user_id == caller.user_id]
    about = {one.uuid: (one.subject["kind"], one.subject["id"]) for one in mine}
    there = targets.still_there(caller, about.values())
    return {uuid for uuid, subject in about.items() if subject in there}


def _thing(record: AuditView, *, is_there: bool) -> ActivityTarget | None:
    kind, page = record.subject.get("kind", ""), PAGES.get(record.subject.get("kind", ""))
    if page is None and kind not in NOUNS:
        return None
    ident, noun = record.subject["id"], page.noun if page else NOUNS[kind][0]
    return ActivityTarget(noun, record.subject["name"] or ident[:8], item_url(page, ident) if page and is_there else "")


def _of_run(run: RunView) -> ActivityEntry:
    presenter = workflow_presenter.of(run)
    reported = (run.error or {}).get("message", "")
    return ActivityEntry(
        run.uuid, run.created_at, presenter.badge, run.user_name, run.request_id, run.instance_uuid, run.uuid,
        intent=presenter.intent, subject=presenter.subject, why=reported,
    )  # fmt: skip


def _of_record(record: AuditView, *, is_there: bool) -> ActivityEntry:
    badge = RESULT_BADGES.get(record.result, StatusBadge("none", record.result))
    return ActivityEntry(
        record.uuid, record.created_at, badge, record.user_name, record.request_id, record.instance_uuid,
        record.run_uuid, action=record.action, on_behalf_of=record.on_behalf_of,
        why=record.reason or (record.error or {}).get("message", ""), thing=_thing(record, is_there=is_there),
    )  # fmt: skip


def _after(shown: list[ActivityEntry], given: dict[str, str]) -> dict[str, str]:
    """Return the positions where both lists continue."""
    runs = [line.id for line in shown if not line.action]
    records = [line.id for line in shown if line.action]
    places = {"runs": runs[-1] if runs else given["runs"], "records": records[-1] if records else given["records"]}
    return {name: place for name, place in places.items() if place}


def _url(query: dict[str, str]) -> str:
    return f"{reverse('activity')}?{urlencode(query)}"
