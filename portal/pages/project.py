"""The project's numbers: quotas of all services, usage and cost of a period with its CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden, Invalid
from conductor.services import costs, usage
from conductor.services.costs import CostLine
from conductor.services.usage import UsageQuery
from portal.pages import quota_requests
from portal.pages.access import PageRequest, signed_in
from portal.pages.quota_groups import groups

MOST_GROUPS = 500  # lines of a page; all of them are in the CSV
DAY = timedelta(days=1)
LONGEST_DAYS = 400
COLUMNS: tuple[str, ...] = ("server", "name", "flavor", "state", "vcpus", "memory_mb", "disk_gb", "hours", "vcpu_hours")
COLUMNS += ("memory_gb_hours", "disk_gb_hours", "cost", "currency")


@dataclass(frozen=True)
class Group:
    """Lines under one heading, added up."""

    name: str
    count: int
    hours: float
    vcpu_hours: float
    memory_gb_hours: float
    cost: Decimal


@require_safe
@signed_in
def quota_page(request: PageRequest) -> HttpResponse:
    """One bar per resource, and what the project has asked for beyond them."""
    context = {
        "groups": [{"title": title, "bars": bars} for title, bars in groups(request)],
        "lines": quota_requests.of_project(request),
        "may_ask": quota_requests.may_ask(request),
    }
    return render(request, "project/quotas.html", context)


@require_safe
@signed_in
def usage_page(request: PageRequest) -> HttpResponse:
    """What ran from one day to another, what it took, and what it cost."""
    begin, end, problem = _period(request.GET)
    lines, missing = _lines(request.asker, begin, end)
    by = request.GET.get("by", "server")
    rates = costs.prices()
    query = urlencode({"from": f"{begin:%Y-%m-%d}", "to": f"{end - DAY:%Y-%m-%d}"})
    shown = _groups(lines, by if by in GROUPINGS else "server")
    context = {
        "begin": begin,
        "last_day": end - DAY,
        "problem": problem,
        "by": by if by in GROUPINGS else "server",
        "groupings": [(key, key.capitalize()) for key in GROUPINGS],
        "groups": shown[:MOST_GROUPS],
        "group_count": len(shown),
        "total": _group("All", lines),
        "prices": rates,
        "csv_url": f"{reverse('usage-csv')}?{query}",
        "missing_cells": missing,
    }
    return render(request, "project/usage.html", context, status=400 if problem else 200)


@require_safe
@signed_in
def usage_csv(request: PageRequest) -> HttpResponse:
    """A line per server, as it counts. Raises Invalid for a period that cannot be."""
    begin, end, problem = _period(request.GET)
    if problem:
        raise Invalid(problem, field="from")
    lines, _ = _lines(request.asker, begin, end)
    response = HttpResponse("".join(_csv(lines)), content_type="text/csv; charset=utf-8")
    name = f"usage-{request.asker.project_name}-{begin:%Y-%m-%d}-{end - DAY:%Y-%m-%d}.csv"
    response.headers["Content-Disposition"] = (
        f'attachment; filename="{"".join(c for c in name if c.isalnum() or c in "-.")}"'
    )
    return response


class _Echo:
    """What a csv.writer writes to, to have the line back."""

    def write(self, line: str) -> str:
        return line


def _csv(lines: list[CostLine]) -> Iterator[str]:
    rates = costs.prices()
    writer = csv.writer(_Echo())
    yield writer.writerow(COLUMNS)
    for line in lines:
        one = line.server
        sizes = (one.vcpus, one.memory_mb, one.disk_gb, f"{one.hours:.6f}", f"{line.vcpu_hours:.6f}")
        amounts = (f"{line.memory_gb_hours:.6f}", f"{line.disk_gb_hours:.6f}")
        price = (str(line.cost), rates.currency) if rates else ("", "")
        yield writer.writerow(
            (one.uuid, _plain(one.name), _plain(one.flavor_name), one.state, *sizes, *amounts, *price)
        )


def _plain(text: str) -> str:
    """A spreadsheet must not take somebody's server name for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _lines(asker: RequestContext, begin: datetime, end: datetime) -> tuple[list[CostLine], Any]:
    if not asker.is_admin and "reader" not in asker.roles:
        raise Forbidden("Who has no role in this project cannot see its usage.")
    found = usage.servers(asker, UsageQuery(begin, min(end, usage.now()), asker.project_id))
    return costs.lines(found.items, costs.prices()), found.missing_cells


def _period(given: Mapping[str, str]) -> tuple[datetime, datetime, str]:
    """From the first day to the end of the last; this month where nothing was said, and a word on what is wrong."""
    today = usage.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    usual = (today.replace(day=1), today + DAY)
    try:
        begin = _day(given["from"]) if given.get("from") else usual[0]
        end = _day(given["to"]) + DAY if given.get("to") else usual[1]
    except ValueError:
        return (*usual, "Give days such as 2026-01-31.")
    if not begin < end:
        return (*usual, "The first day is after the last.")
    if begin >= usual[1]:
        return (*usual, "That period has not begun yet.")
    if (end - begin).days > LONGEST_DAYS:
        return (*usual, f"Ask for at most {LONGEST_DAYS} days.")
    return begin, end, ""


def _day(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)


GROUPINGS: Mapping[str, Any] = {
    "server": lambda line: line.server.name,
    "flavor": lambda line: line.server.flavor_name,
    "state": lambda line: line.server.state,
    "start": lambda line: f"{line.server.began_at:%Y-%m-%d}",
}


def _groups(lines: list[CostLine], by: str) -> list[Group]:
    found: dict[str, list[CostLine]] = {}
    for line in lines:
        found.setdefault(GROUPINGS[by](line), []).append(line)
    return [_group(name, members) for name, members in sorted(found.items())]


def _group(name: str, lines: list[CostLine]) -> Group:
    return Group(
        name,
        len(lines),
        sum(line.server.hours for line in lines),
        sum(line.vcpu_hours for line in lines),
        sum(line.memory_gb_hours for line in lines),
        sum((line.cost for line in lines), Decimal(0)),
    )
