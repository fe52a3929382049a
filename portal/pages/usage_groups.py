"""Usage under headings: by server, flavor, tag, user, day and more, each line counted where it belongs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from django.utils.translation import gettext

from conductor.core.context import RequestContext
from conductor.services import flow_lists, usage
from conductor.services.costs import CostLine

DAY = timedelta(days=1)
SERVER, PROJECT = "server", "project"


@dataclass(frozen=True)
class Group:
    """Lines under one heading, added up."""

    name: str
    count: int
    hours: float
    vcpu_hours: float
    memory_gb_hours: float
    cost: Decimal


@dataclass(frozen=True)
class Asked:
    """The lines of a period, and who asks."""

    asker: RequestContext
    lines: Sequence[CostLine]
    begin: datetime
    end: datetime


Parts = Iterator[tuple[str, CostLine, float]]  # heading, line, the share of the line that counts there


def offered(asker: RequestContext) -> dict[str, str]:
    """What this person can group by, with its words: projects beside his own are for administrators."""
    words = {
        SERVER: gettext("Server"),
        "flavor": gettext("Flavor"),
        "state": gettext("State"),
        "tag": gettext("Tag"),
        "user": gettext("User"),
        "day": gettext("Day"),
        "start": gettext("Day of launch"),
    }
    return {**words, PROJECT: gettext("Project")} if asker.is_admin else words


def groups(asked: Asked, by: str) -> list[Group]:
    """In the order of their names."""
    found: dict[str, list[tuple[CostLine, float]]] = {}
    for name, line, share in _PARTS[by](asked):
        found.setdefault(name, []).append((line, share))
    return [group(name, members) for name, members in sorted(found.items())]


def group(name: str, members: Sequence[tuple[CostLine, float]]) -> Group:
    """The sum of shares of lines."""
    return Group(
        name,
        len(members),
        sum(line.server.hours * share for line, share in members),
        sum(line.vcpu_hours * share for line, share in members),
        sum(line.memory_gb_hours * share for line, share in members),
        sum((line.cost if share == 1 else line.cost * Decimal(share) for line, share in members), Decimal(0)),
    )


def _whole(name_of: Callable[[CostLine], str]) -> Callable[[Asked], Parts]:
    return lambda asked: ((name_of(line), line, 1) for line in asked.lines)


def _by_tag(asked: Asked) -> Parts:
    """A server with two tags counts under both: what was spent on each."""
    for line in asked.lines:
        for tag in line.server.tags or [f"({gettext('no tag')})"]:
            yield tag, line, 1


def _by_user(asked: Asked) -> Parts:
    names = usage.user_names({line.server.user_id for line in asked.lines})
    return ((names.get(line.server.user_id, line.server.user_id), line, 1) for line in asked.lines)


def _by_project(asked: Asked) -> Parts:
    names = flow_lists.project_names(asked.asker, {line.server.project_id for line in asked.lines})
    return ((names.get(line.server.project_id, line.server.project_id), line, 1) for line in asked.lines)


def _by_day(asked: Asked) -> Parts:
    """What each server ran on each day: its share of the hours, and of the cost."""
    for line in asked.lines:
        began = max(line.server.began_at, asked.begin)
        ended = min(line.server.ended_at or asked.end, asked.end)
        day = began.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        while day < ended and ended > began:
            within = min(ended, day + DAY) - max(began, day)
            yield f"{day:%Y-%m-%d}", line, within / (ended - began)
            day += DAY


_PARTS: Mapping[str, Callable[[Asked], Parts]] = {
    SERVER: _whole(lambda line: line.server.name),
    "flavor": _whole(lambda line: line.server.flavor_name),
    "state": _whole(lambda line: line.server.state),
    "start": _whole(lambda line: f"{line.server.began_at:%Y-%m-%d}"),
    "tag": _by_tag,
    "user": _by_user,
    "day": _by_day,
    PROJECT: _by_project,
}
