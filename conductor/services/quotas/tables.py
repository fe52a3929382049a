"""Quotas and usage of all projects as a table, with a constant number of queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Count, Sum
from django.db.models.functions import Coalesce

from conductor.api_db.models import Quota, UsageEntry
from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden
from conductor.identity.models import Project
from conductor.services.quotas import quotas, volume_quotas
from conductor.services.quotas.quotas import IN_LEDGER
from conductor.services.quotas.types import QuotaView
from conductor.volume.models import Snapshot, Volume

SHOWN = ("instances", "cores", "ram", "volumes", "gigabytes")
PAGE_SIZE = 50


@dataclass(frozen=True)
class ProjectQuotas:
    """A project with its limits, in the order of SHOWN; `own` are the resources with a limit of the project's own."""

    project_id: str
    name: str
    is_enabled: bool
    limits: tuple[QuotaView, ...]
    own: frozenset[str]


@dataclass(frozen=True)
class QuotaTable:
    """A page of projects by name, and the default limits."""

    rows: list[ProjectQuotas]
    defaults: tuple[QuotaView, ...]
    has_more: bool


def table(context: RequestContext, text: str = "", page: int = 1) -> QuotaTable:
    """Return the projects whose name contains the text. Raises Forbidden for callers other than operators."""
    if not context.is_admin:
        raise Forbidden("The limits of all projects are for operators.")
    wanted = Project.objects.filter(name__icontains=text) if text else Project.objects.all()
    start = (page - 1) * PAGE_SIZE
    projects = list(wanted.order_by("name", "pk")[start : start + PAGE_SIZE + 1])
    shown = projects[:PAGE_SIZE]
    ids = [one.id for one in shown]
    defaults = {**volume_quotas.class_limits(), **quotas.class_limits("default")}
    own, taken = _own(ids), _taken(ids)
    rows = [
        ProjectQuotas(
            one.id,
            one.name,
            one.is_enabled,
            _limits({**defaults, **own.get(one.id, {})}, taken.get(one.id, {})),
            frozenset(own.get(one.id, {})),
        )
        for one in shown
    ]
    return QuotaTable(rows, _limits(defaults, {}), len(projects) > PAGE_SIZE)


def _limits(allowed: Mapping[str, int], taken: Mapping[str, int]) -> tuple[QuotaView, ...]:
    return tuple(QuotaView(name, allowed[name], taken.get(name, 0)) for name in SHOWN)


def _own(project_ids: Sequence[str]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    rows = Quota.objects.filter(project_id__in=project_ids, resource__in=SHOWN)
    for project_id, resource, limit in rows.values_list("project_id", "resource", "limit"):
        found.setdefault(project_id, {})[resource] = limit
    return found


def _taken(project_ids: Sequence[str]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {one: dict.fromkeys(SHOWN, 0) for one in project_ids}
    entries = UsageEntry.objects.filter(project_id__in=project_ids).values_list("project_id")
    for project_id, *amounts in entries.annotate(*map(Sum, IN_LEDGER)).order_by():
        found[project_id] |= dict(zip(IN_LEDGER, amounts, strict=True))
    for model in (Volume, Snapshot):
        stored = model.objects.filter(project_id__in=project_ids).values_list("project_id")
        for project_id, count, total in stored.annotate(
            count=Count("pk"), total=Coalesce(Sum("size_gb"), 0)
        ).order_by():
            found[project_id]["gigabytes"] += total
            found[project_id]["volumes"] += count if model is Volume else 0
    return found
