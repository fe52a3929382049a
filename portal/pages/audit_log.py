"""The audit log, for operators: who did what, from where, and what was refused; narrowed, and as a file."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.services import audit, audit_files, audit_reads, audit_seals, flow_lists
from conductor.services.audit import AuditQuery
from portal.pages import page_lengths
from portal.pages.access import PageRequest, operators_only
from portal.pages.activity import KINDS
from portal.pages.faces import Face

GIVEN = ("action", "kind", "result", "user_id", "project_id", "run_uuid", "instance_uuid", "request_id")
SPANS = {"": ("Any time", 0), "hour": ("Last hour", 1), "day": ("Last day", 24), "week": ("Last week", 168)}
ROWS_PER_PAGE = 100
ROWS_PER_READ = 1000
MOST_IN_A_FILE = 100_000
FACES = {audit.DONE: Face("good", "done"), audit.REFUSED: Face("bad", "refused")}


@require_safe
@operators_only
def audit_log(request: PageRequest) -> HttpResponse:
    """Newest first."""
    query = _query(request)
    given, kept, marker = _given(request), page_lengths.kept(request.GET), request.GET.get("marker", "")
    rows = page_lengths.rows_of(request.GET, ROWS_PER_PAGE)
    found = audit.list_records(request.asker, replace(query, limit=rows, marker=marker))
    here = {**given, **kept}
    names = flow_lists.project_names(request.asker, {one.project_id for one in found.items})
    context: dict[str, Any] = {
        "given": here,
        "spans": [(key, words) for key, (words, _) in SPANS.items()],
        "results": FACES.items(),
        "kinds": KINDS.items(),
        "seals": _seals(request.asker),
        "rows": [(one, FACES[one.result], names.get(one.project_id, one.project_id)) for one in found.items],
        "missing_cells": found.missing_cells,
        "is_narrowed": bool(given),
        "first_url": _url("audit-log", here) if marker else "",
        "next_url": _url("audit-log", {**here, "marker": found.items[-1].uuid}) if found.has_more else "",
        "file_url": _url("audit-csv", given),
        **page_lengths.other(reverse("audit-log"), here, ROWS_PER_PAGE, has_others=found.has_more or bool(marker)),
    }
    audit_reads.note(request.asker, via="page", narrowed=given)
    return render(request, "audit/_list.html" if request.htmx else "audit/list.html", context)


@require_safe
@operators_only
def audit_csv(request: PageRequest) -> HttpResponse:
    """The same records as a file, newest first, up to as many as a spreadsheet takes."""
    query = _query(request)
    audit.list_records(request.asker, replace(query, limit=1))  # what is wrong with the address is said before the file
    response = HttpResponse("".join(_lines(request.asker, query)), content_type="text/csv; charset=utf-8")
    audit_reads.note_export(request.asker, narrowed=_given(request))
    response["Content-Disposition"] = 'attachment; filename="audit.csv"'
    return response


def _seals(asker: RequestContext) -> dict[str, Any]:
    """How far the log is sealed and checked: of all databases, the one that is furthest behind speaks."""
    views = [one for one in audit_seals.state(asker).items if one.begun_at or one.unsealed]
    checks = [one.checked_at for one in views]
    return {
        "count": sum(one.sealed for one in views),
        "unsealed": sum(one.unsealed for one in views),
        "sealed_at": max((one.sealed_at for one in views if one.sealed_at), default=None),
        "checked_at": None if None in checks else min(filter(None, checks), default=None),
        "troubles": [one for one in views if one.trouble],
    }


class _Line:
    """A file that hands each line back."""

    def write(self, text: str) -> str:
        return text


def _lines(asker: RequestContext, query: AuditQuery) -> Iterator[str]:
    writer = csv.writer(_Line())
    yield writer.writerow(audit_files.COLUMNS)
    marker = ""
    for _ in range(MOST_IN_A_FILE // ROWS_PER_READ):
        found = audit.list_records(asker, replace(query, limit=ROWS_PER_READ, marker=marker))
        for one in found.items:
            yield writer.writerow(audit_files.row_of(one))
        if not found.has_more:
            return
        marker = found.items[-1].uuid


def _given(request: PageRequest) -> dict[str, str]:
    given = {name: request.GET.get(name, "").strip() for name in (*GIVEN, "span")}
    return {name: value for name, value in given.items() if value}


def _query(request: PageRequest) -> AuditQuery:
    given: dict[str, Any] = _given(request)
    span = given.pop("span", "")
    if span not in SPANS:
        raise Invalid(f"Unknown span {span[:60]}; it is one of {', '.join(filter(None, SPANS))}.", field="span")
    hours = SPANS[span][1]
    return AuditQuery(since=datetime.now(UTC) - timedelta(hours=hours) if hours else None, **given)


def _url(route: str, given: dict[str, str]) -> str:
    return f"{reverse(route)}{'?' if given else ''}{urlencode(given)}"
