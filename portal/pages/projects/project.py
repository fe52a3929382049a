"""Quotas, usage and cost of a project, with the CSV of a period."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from conductor.core.errors import Forbidden, Invalid
from conductor.services.billing import costs, usage
from conductor.services.billing.usage import UsageQuery
from portal.pages.permissions import PageRequest, may_change, signed_in
from portal.pages.projects import quota_requests
from portal.pages.projects.budgets import budget_context
from portal.pages.projects.quota_groups import groups as quota_groups
from portal.pages.projects.usage_groups import DAY, PROJECT, SERVER, UsagePeriod, group, groups, offered

MOST_GROUPS = 500  # lines of a page; the CSV has all of them
LONGEST_DAYS = 400
COLUMNS: tuple[str, ...] = ("server", "name", "flavor", "state", "vcpus", "memory_mb", "disk_gb", "hours", "vcpu_hours")
COLUMNS += ("memory_gb_hours", "disk_gb_hours", "cost", "currency", "user", "tags")
GROUP_COLUMNS = ("servers", "hours", "vcpu_hours", "memory_gb_hours", "cost", "currency")


@require_safe
@signed_in
def quota_page(request: PageRequest) -> HttpResponse:
    """Show a bar per resource, and the project's requests for more."""
    context = {
        "groups": [{"title": title, "bars": bars} for title, bars in quota_groups(request)],
        "lines": quota_requests.of_project(request),
        "may_ask": may_change(request.caller),
    }
    return render(request, "projects/quotas.html", context)


@require_safe
@signed_in
def usage_page(request: PageRequest) -> HttpResponse:
    """Show the usage and cost of a period."""
    begin, end, problem = _period(request.GET)
    by = _by(request)
    requested, missing = _asked(request, begin, end, by)
    rates = costs.prices()
    query = {"from": f"{begin:%Y-%m-%d}", "to": f"{end - DAY:%Y-%m-%d}"}
    shown = groups(requested, by)
    context = {
        "begin": begin,
        "last_day": end - DAY,
        "problem": problem,
        "by": by,
        "by_words": offered(request.caller)[by],
        "groupings": offered(request.caller).items(),
        "groups": shown[:MOST_GROUPS],
        "group_count": len(shown),
        "total": group("", [(line, 1) for line in requested.lines]),
        "prices": rates,
        "csv_url": f"{reverse('usage-csv')}?{urlencode(query)}",
        "csv_by_url": "" if by == SERVER else f"{reverse('usage-csv')}?{urlencode({**query, 'by': by})}",
        "missing_cells": missing,
        **budget_context(request),
    }
    return render(request, "projects/usage.html", context, status=400 if problem else 200)


@require_safe
@signed_in
def usage_csv(request: PageRequest) -> HttpResponse:
    """Return a CSV with a line per server, or per heading. Raises Invalid for an invalid period."""
    begin, end, problem = _period(request.GET)
    if problem:
        raise Invalid(problem, field="from")
    by = _by(request)
    requested, _ = _asked(request, begin, end, by)
    written = _csv(requested) if by == SERVER else _csv_of_groups(requested, by)
    response = HttpResponse("".join(written), content_type="text/csv; charset=utf-8")
    name = f"usage-{request.caller.project_name}-{begin:%Y-%m-%d}-{end - DAY:%Y-%m-%d}.csv"
    response.headers["Content-Disposition"] = (
        f'attachment; filename="{"".join(c for c in name if c.isalnum() or c in "-.")}"'
    )
    return response


class _Echo:
    """A file-like object whose `write` returns the line."""

    def write(self, line: str) -> str:
        return line


def _csv(requested: UsagePeriod) -> Iterator[str]:
    rates = costs.prices()
    names = usage.user_names({line.server.user_id for line in requested.lines})
    writer = csv.writer(_Echo())
    yield writer.writerow(COLUMNS)
    for line in requested.lines:
        one = line.server
        sizes = (one.vcpus, one.memory_mb, one.disk_gb, f"{one.hours:.6f}", f"{line.vcpu_hours:.6f}")
        amounts = (f"{line.memory_gb_hours:.6f}", f"{line.disk_gb_hours:.6f}")
        price = (str(line.cost), rates.currency) if rates else ("", "")
        whose = (_plain(names.get(one.user_id, one.user_id)), _plain(" ".join(one.tags)))
        yield writer.writerow(
            (one.uuid, _plain(one.name), _plain(one.flavor_name), one.state, *sizes, *amounts, *price, *whose)
        )


def _csv_of_groups(requested: UsagePeriod, by: str) -> Iterator[str]:
    rates = costs.prices()
    writer = csv.writer(_Echo())
    yield writer.writerow((by, *GROUP_COLUMNS))
    for one in groups(requested, by):
        sums = (f"{one.hours:.6f}", f"{one.vcpu_hours:.6f}", f"{one.memory_gb_hours:.6f}")
        price = (f"{one.cost:.4f}", rates.currency) if rates else ("", "")
        yield writer.writerow((_plain(one.name), one.count, *sums, *price))


def _plain(text: str) -> str:
    """Escape text that a spreadsheet would run as a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _by(request: PageRequest) -> str:
    wanted = request.GET.get("by", SERVER)
    return wanted if wanted in offered(request.caller) else SERVER


def _asked(request: PageRequest, begin: datetime, end: datetime, by: str) -> tuple[UsagePeriod, Any]:
    """Return the lines of the project, or of all projects when grouping by project."""
    caller = request.caller
    if not caller.is_admin and "reader" not in caller.roles:
        raise Forbidden("You need a role in this project to see its usage.")
    end = min(end, usage.now())
    found = usage.servers(caller, UsageQuery(begin, end, "" if by == PROJECT else caller.project_id))
    return UsagePeriod(caller, costs.lines(found.items, costs.prices()), begin, end), found.missing_cells


def _period(given: Mapping[str, str]) -> tuple[datetime, datetime, str]:
    """Return begin and end of the period, by default this month, and an error."""
    today = usage.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    typical = (today.replace(day=1), today + DAY)
    try:
        begin = _day(given["from"]) if given.get("from") else typical[0]
        end = _day(given["to"]) + DAY if given.get("to") else typical[1]
    except (ValueError, OverflowError):  # no valid date, or the last possible day
        return (*typical, "Enter dates in the form 2026-01-31.")
    if not begin < end:
        return (*typical, "The first day must not be after the last day.")
    if begin >= typical[1]:
        return (*typical, "The period hasn't started yet.")
    if (end - begin).days > LONGEST_DAYS:
        return (*typical, gettext("Select a period of at most %(days)s days.") % {"days": LONGEST_DAYS})
    return begin, end, ""


def _day(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
