"""Usage grouped by server, flavor, tag, user, day and more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from django.utils.translation import gettext

from conductor.core.context import RequestContext
from conductor.services.billing import usage
from conductor.services.billing.costs import CostLine
from conductor.services.workflows import lists

DAY = timedelta(days=1)
SERVER, PROJECT = "server", "project"


@dataclass(frozen=True)
class UsageGroup:
    """The sum of the lines under one heading."""

    name: str
    count: int
    hours: float
    vcpu_hours: float
    memory_gb_hours: float
    cost: Decimal


@dataclass(frozen=True)
class UsagePeriod:
    """The lines of a period, and the caller."""

    caller: RequestContext
    lines: Sequence[CostLine]
    begin: datetime
    end: datetime


Parts = Iterator[tuple[str, CostLine, float]]  # heading, line, the share of the line that counts there


def offered(caller: RequestContext) -> dict[str, str]:
    """Return the groupings that the caller may use, with their names; other projects are for administrators."""
    words = {
        SERVER: gettext("Server"),
        "flavor": gettext("Flavor"),
        "state": gettext("State"),
        "tag": gettext("Tag"),
        "user": gettext("User"),
        "day": gettext("Day"),
        "start": gettext("Launch day"),
    }
    return {**words, PROJECT: gettext("Project")} if caller.is_admin else words


def groups(requested: UsagePeriod, by: str) -> list[UsageGroup]:
    """Return the groups in the order of their names."""
    found: dict[str, list[tuple[CostLine, float]]] = {}
    for name, line, share in _PARTS[by](requested):
        found.setdefault(name, []).append((line, share))
    return [group(name, members) for name, members in sorted(found.items())]


def group(name: str, members: Sequence[tuple[CostLine, float]]) -> UsageGroup:
    """Return the sum of shares of lines."""
    return UsageGroup(
        name,
        len(members),
        sum(line.server.hours * share for line, share in members),
        sum(line.vcpu_hours * share for line, share in members),
        sum(line.memory_gb_hours * share for line, share in members),
        sum((line.cost if share == 1 else line.cost * Decimal(share) for line, share in members), Decimal(0)),
    )


def _whole(name_of: Callable[[CostLine], str]) -> Callable[[UsagePeriod], Parts]:
    return lambda form: ((name_of(line), line, 1) for line in form.lines)


def _by_tag(requested: UsagePeriod) -> Parts:
    """Group by tag. A server with two tags counts under both."""
    for line in requested.lines:
        for tag in line.server.tags or [f"({gettext('no tag')})"]:
            yield tag, line, 1


def _by_user(requested: UsagePeriod) -> Parts:
    names = usage.user_names({line.server.user_id for line in requested.lines})
    return ((names.get(line.server.user_id, line.server.user_id), line, 1) for line in requested.lines)


def _by_project(requested: UsagePeriod) -> Parts:
    names = lists.project_names(requested.caller, {line.server.project_id for line in requested.lines})
    return ((names.get(line.server.project_id, line.server.project_id), line, 1) for line in requested.lines)


def _by_day(requested: UsagePeriod) -> Parts:
    """Group by day: each server's share of hours and cost on each day."""
    for line in requested.lines:
        began = max(line.server.began_at, requested.begin)
        ended = min(line.server.ended_at or requested.end, requested.end)
        day = began.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        while day < ended and ended > began:
            within = min(ended, day + DAY) - max(began, day)
            yield f"{day:%Y-%m-%d}", line, within / (ended - began)
            day += DAY


_PARTS: Mapping[str, Callable[[UsagePeriod], Parts]] = {
    SERVER: _whole(lambda line: line.server.name),
    "flavor": _whole(lambda line: line.server.flavor_name),
    "state": _whole(lambda line: line.server.state),
    "start": _whole(lambda line: f"{line.server.began_at:%Y-%m-%d}"),
    "tag": _by_tag,
    "user": _by_user,
    "day": _by_day,
    PROJECT: _by_project,
}
