"""The project's numbers: quotas of all services, usage and cost of a period with its CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from conductor.core.errors import Forbidden, Invalid
from conductor.services import costs, usage
from conductor.services.usage import UsageQuery
from portal.pages import quota_requests
from portal.pages.access import PageRequest, may_change, signed_in
from portal.pages.budgets import budget_context
from portal.pages.quota_groups import groups as quota_groups
from portal.pages.usage_groups import DAY, PROJECT, SERVER, Asked, group, groups, offered

MOST_GROUPS = 500  # lines of a page; all of them are in the CSV
LONGEST_DAYS = 400
COLUMNS: tuple[str, ...] = ("server", "name", "flavor", "state", "vcpus", "memory_mb", "disk_gb", "hours", "vcpu_hours")
COLUMNS += ("memory_gb_hours", "disk_gb_hours", "cost", "currency", "user", "tags")
GROUP_COLUMNS = ("servers", "hours", "vcpu_hours", "memory_gb_hours", "cost", "currency")


@require_safe
@signed_in
def quota_page(request: PageRequest) -> HttpResponse:
    """One bar per resource, and what the project has asked for beyond them."""
    context = {
        "groups": [{"title": title, "bars": bars} for title, bars in quota_groups(request)],
        "lines": quota_requests.of_project(request),
        "may_ask": may_change(request.asker),
    }
    return render(request, "project/quotas.html", context)


@require_safe
@signed_in
def usage_page(request: PageRequest) -> HttpResponse:
    """What ran from one day to another, what it took, and what it cost."""
    begin, end, problem = _period(request.GET)
    by = _by(request)
    asked, missing = _asked(request, begin, end, by)
    rates = costs.prices()
    query = {"from": f"{begin:%Y-%m-%d}", "to": f"{end - DAY:%Y-%m-%d}"}
    shown = groups(asked, by)
    context = {
        "begin": begin,
        "last_day": end - DAY,
        "problem": problem,
        "by": by,
        "by_words": offered(request.asker)[by],
        "groupings": offered(request.asker).items(),
        "groups": shown[:MOST_GROUPS],
        "group_count": len(shown),
        "total": group("", [(line, 1) for line in asked.lines]),
        "prices": rates,
        "csv_url": f"{reverse('usage-csv')}?{urlencode(query)}",
        "csv_by_url": "" if by == SERVER else f"{reverse('usage-csv')}?{urlencode({**query, 'by': by})}",
        "missing_cells": missing,
        **budget_context(request),
    }
    return render(request, "project/usage.html", context, status=400 if problem else 200)


@require_safe
@signed_in
def usage_csv(request: PageRequest) -> HttpResponse:
    """A line per server, as it counts; or one per heading. Raises Invalid for a period that cannot be."""
    begin, end, problem = _period(request.GET)
    if problem:
        raise Invalid(problem, field="from")
    by = _by(request)
    asked, _ = _asked(request, begin, end, by)
    written = _csv(asked) if by == SERVER else _csv_of_groups(asked, by)
    response = HttpResponse("".join(written), content_type="text/csv; charset=utf-8")
    name = f"usage-{request.asker.project_name}-{begin:%Y-%m-%d}-{end - DAY:%Y-%m-%d}.csv"
    response.headers["Content-Disposition"] = (
        f'attachment; filename="{"".join(c for c in name if c.isalnum() or c in "-.")}"'
    )
    return response


class _Echo:
    """What a csv.writer writes to, to have the line back."""

    def write(self, line: str) -> str:
        return line


def _csv(asked: Asked) -> Iterator[str]:
    rates = costs.prices()
    names = usage.user_names({line.server.user_id for line in asked.lines})
    writer = csv.writer(_Echo())
    yield writer.writerow(COLUMNS)
    for line in asked.lines:
        one = line.server
        sizes = (one.vcpus, one.memory_mb, one.disk_gb, f"{one.hours:.6f}", f"{line.vcpu_hours:.6f}")
        amounts = (f"{line.memory_gb_hours:.6f}", f"{line.disk_gb_hours:.6f}")
        price = (str(line.cost), rates.currency) if rates else ("", "")
        whose = (_plain(names.get(one.user_id, one.user_id)), _plain(" ".join(one.tags)))
        yield writer.writerow(
            (one.uuid, _plain(one.name), _plain(one.flavor_name), one.state, *sizes, *amounts, *price, *whose)
        )


def _csv_of_groups(asked: Asked, by: str) -> Iterator[str]:
    rates = costs.prices()
    writer = csv.writer(_Echo())
    yield writer.writerow((by, *GROUP_COLUMNS))
    for one in groups(asked, by):
        sums = (f"{one.hours:.6f}", f"{one.vcpu_hours:.6f}", f"{one.memory_gb_hours:.6f}")
        price = (f"{one.cost:.4f}", rates.currency) if rates else ("", "")
        yield writer.writerow((_plain(one.name), one.count, *sums, *price))


def _plain(text: str) -> str:
    """A spreadsheet must not take somebody's server name for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _by(request: PageRequest) -> str:
    wanted = request.GET.get("by", SERVER)
    return wanted if wanted in offered(request.asker) else SERVER


def _asked(request: PageRequest, begin: datetime, end: datetime, by: str) -> tuple[Asked, Any]:
    """The lines of the project, and of all projects where these are the headings."""
    asker = request.asker
    if not asker.is_admin and "reader" not in asker.roles:
        raise Forbidden("Who has no role in this project cannot see its usage.")
    end = min(end, usage.now())
    found = usage.servers(asker, UsageQuery(begin, end, "" if by == PROJECT else asker.project_id))
    return Asked(asker, costs.lines(found.items, costs.prices()), begin, end), found.missing_cells


def _period(given: Mapping[str, str]) -> tuple[datetime, datetime, str]:
    """From the first day to the end of the last; this month where nothing was said, and a word on what is wrong."""
    today = usage.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    usual = (today.replace(day=1), today + DAY)
    try:
        begin = _day(given["from"]) if given.get("from") else usual[0]
        end = _day(given["to"]) + DAY if given.get("to") else usual[1]
    except (ValueError, OverflowError):  # no day, or none that another follows
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
