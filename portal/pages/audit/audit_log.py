"""The audit log, for operators: actor, action, address and refusals; with filters, and as a file."""

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
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.services.audit import audit, files, operator_audit, seals
from conductor.services.audit.audit import AuditQuery
from conductor.services.workflows import lists
from portal.pages import page_lengths
from portal.pages.audit.activity import KINDS
from portal.pages.permissions import PageRequest, operators_only
from portal.pages.status_badges import StatusBadge

GIVEN = ("action", "kind", "result", "user_id", "project_id", "run_uuid", "instance_uuid", "request_id")
SPANS = {"": ("Any time", 0), "hour": ("Last hour", 1), "day": ("Last day", 24), "week": ("Last week", 168)}
ROWS_PER_PAGE = 100
ROWS_PER_READ = 1000
MOST_IN_A_FILE = 100_000
BADGES = {audit.DONE: StatusBadge("good", "done"), audit.REFUSED: StatusBadge("bad", "refused")}


@require_safe
@operators_only
def audit_log(request: PageRequest) -> HttpResponse:
    """Show the records, newest first."""
    query = _query(request)
    given, kept, marker = _given(request), page_lengths.kept(request.GET), request.GET.get("marker", "")
    rows = page_lengths.rows_of(request.GET, ROWS_PER_PAGE)
    found = audit.list_records(request.caller, replace(query, limit=rows, marker=marker))
    here = {**given, **kept}
    names = lists.project_names(request.caller, {one.project_id for one in found.items})
    context: dict[str, Any] = {
        "given": here,
        "spans": [(key, words) for key, (words, _) in SPANS.items()],
        "results": BADGES.items(),
        "kinds": KINDS.items(),
        "seals": _seals(request.caller),
        "rows": [(one, BADGES[one.result], names.get(one.project_id, one.project_id)) for one in found.items],
        "missing_cells": found.missing_cells,
        "is_narrowed": bool(given),
        "first_url": _url("audit-log", here) if marker else "",
        "next_url": _url("audit-log", {**here, "marker": found.items[-1].uuid}) if found.has_more else "",
        "file_url": _url("audit-csv", given),
        **page_lengths.other(reverse("audit-log"), here, ROWS_PER_PAGE, has_others=found.has_more or bool(marker)),
    }
    operator_audit.note(request.caller, via="page", narrowed=given)
    return render(request, "audit/_list.html" if request.htmx else "audit/list.html", context)


@require_safe
@operators_only
def audit_csv(request: PageRequest) -> HttpResponse:
    """Return the same records as a file, newest first, up to the number of rows that a spreadsheet takes."""
    query = _query(request)
    audit.list_records(
        request.caller, replace(query, limit=1)
    )  # errors in the query are reported before the file starts
    response = HttpResponse("".join(_lines(request.caller, query)), content_type="text/csv; charset=utf-8")
    operator_audit.note_export(request.caller, narrowed=_given(request))
    response["Content-Disposition"] = 'attachment; filename="audit.csv"'
    return response


def _seals(caller: RequestContext) -> dict[str, Any]:
    """Return how far the log is sealed and checked, combined for all databases."""
    views = [one for one in seals.state(caller).items if one.begun_at or one.unsealed]
    checks = [one.checked_at for one in views]
    return {
        "count": sum(one.sealed for one in views),
        "unsealed": sum(one.unsealed for one in views),
        "sealed_at": max((one.sealed_at for one in views if one.sealed_at), default=None),
        "checked_at": None if None in checks else min(filter(None, checks), default=None),
        "troubles": [one for one in views if one.trouble],
    }


class _EchoWriter:
    """A file-like object whose `write` returns the line."""

    def write(self, text: str) -> str:
        return text


def _lines(caller: RequestContext, query: AuditQuery) -> Iterator[str]:
    writer = csv.writer(_EchoWriter())
    yield writer.writerow(files.COLUMNS)
    marker = ""
    for _ in range(MOST_IN_A_FILE // ROWS_PER_READ):
        found = audit.list_records(caller, replace(query, limit=ROWS_PER_READ, marker=marker))
        for one in found.items:
            yield writer.writerow(files.row_of(one))
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
        raise Invalid(
            gettext("Unknown time span %(span)s. Use one of %(choices)s.")
            % {"span": span[:60], "choices": ", ".join(filter(None, SPANS))},
            field="span",
        )
    hours = SPANS[span][1]
    return AuditQuery(since=datetime.now(UTC) - timedelta(hours=hours) if hours else None, **given)


def _url(route: str, given: dict[str, str]) -> str:
    return f"{reverse(route)}{'?' if given else ''}{urlencode(given)}"
