"""Lookup of instances: one by its uuid, and pages over build requests and all cells together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from django.db import connections
from django.db.models import Model, OuterRef, Q, QuerySet, Subquery

from conductor.api_db.models import BuildRequest, InstanceGroupMember, InstanceMapping
from conductor.cell_db.models import Instance
from conductor.cells.lookup import API_ALIAS, cell_aliases
from conductor.cells.scatter_gather import GatherResult, scatter_gather
from conductor.core.context import RequestContext
from conductor.core.errors import CellUnavailable, Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.core.page import Page
from conductor.db.compiled import CompiledQuery, uuid_text
from conductor.services.servers import filters, instance_data, name_search
from conductor.services.servers.types import InstanceData, InstanceQuery

# An instance may move from its request to a cell during a lookup; the lookup is then repeated, at most so often.
ROUNDS = 5
Row = TypeVar("Row", bound=Model)
Anchor = Sequence[tuple[str, bool, Any]]  # sort key, is_descending, the marker's value


def missing(instance_uuid: str) -> NotFound:
    """Return the error for an instance that does not exist or belongs to another project."""
    return NotFound(f"Instance {instance_uuid} could not be found.")


def mapping_of(context: RequestContext, instance_uuid: str) -> InstanceMapping:
    """Return an instance's mapping to its cell. Raises NotFound, also for an instance of another project."""
    wanted = uuid_or_none(instance_uuid)
    row = InstanceMapping.objects.select_related("cell").filter(instance_uuid=wanted).first() if wanted else None
    if row is None or not context.may_see_project(row.project_id):
        raise missing(instance_uuid)
    return row


def get(context: RequestContext, instance_uuid: str) -> InstanceData:
    """Return an instance from its cell or its build request; partial if its cell is down. Raises NotFound."""
    wanted = uuid_or_none(instance_uuid)
    for _ in range(ROUNDS):
        place = _place_of(wanted) if wanted else None
        if wanted is None or place is None or not context.may_see_project(place.project_id):
            break
        view = _in_cell(wanted, place) if place.cell else _requested(wanted)
        if view is not None:
            return instance_data.with_values(
                view, run_uuid=view.run_uuid or place.build_run_uuid, group_uuid=place.group_uuid
            )
        if place.cell or place.is_deleted:
            break
    raise missing(instance_uuid)


def list_page(context: RequestContext, query: InstanceQuery) -> Page[InstanceData]:
    """Return a page of instances of the caller's project (of all, for an administrator on request).

    Build requests are read before cells: an instance that moves meanwhile is found twice, never missed, and the row of
    its cell is used. Raises Invalid for an unknown filter, sort key or marker, and CellUnavailable if the query
    requires all cells.
    """
    query = filters.checked(query)
    scope = Q() if query.all_projects and context.is_admin else Q(project_id=context.project_id)
    anchor = _anchor(context, query) if query.marker else ()
    found = {view.uuid: view for view in _requests(query, scope, anchor)}
    gathered = _from_cells(query, scope, anchor)
    for views in gathered.answers.values():
        found |= {view.uuid: view for view in views}
    can_be_partial = query.with_partial and filters.is_plain(query)
    if gathered.failures and query.must_be_whole and not can_be_partial:
        raise CellUnavailable(f"A list would lack what is in cells that do not answer: {', '.join(gathered.failures)}.")
    if gathered.failures and can_be_partial:
        from_down_cells = _unanswered(list(gathered.failures), query, scope, anchor)
        found |= {view.uuid: view for view in from_down_cells if view.uuid not in found}
    ordered = filters.in_order(list(found.values()), query)
    shown = _completed(ordered[: query.limit], gathered.failures)
    if query.with_runs:
        shown = _with_build_runs(shown)
    return Page(shown, has_more=len(ordered) > query.limit, missing_cells=gathered.failures)


def _from_cells(query: InstanceQuery, scope: Q, anchor: Anchor) -> GatherResult[list[InstanceData]]:
    """Return rows for the page: from each cell its expected share with a margin.

    A cell that may have more rows for the page is read again, for a full page.
    """
    share = _share(query.limit)
    gathered = scatter_gather(_asking(query, scope, anchor, share), cell_aliases())
    spent = _spent(gathered.answers, query, share)
    if spent:
        again = scatter_gather(_asking(query, scope, anchor, query.limit + 1), spent)
        gathered.failures |= again.failures
        kept = {alias: rows for alias, rows in gathered.answers.items() if alias not in again.failures}
        gathered.answers = kept | again.answers
    return gathered


def _share(limit: int) -> int:
    """Return how many rows to read from a cell first: enough for 99 of 100 pages if servers are spread evenly."""
    mean = limit / max(1, len(cell_aliases(with_cell0=False)))
    return min(limit + 1, math.ceil(mean + 3 * math.sqrt(mean)) + 1)


def _spent(answers: Mapping[str, list[InstanceData]], query: InstanceQuery, share: int) -> list[str]:
    """Return the cells that may have more rows for the page: their full share is on it."""
    if share > query.limit:
        return []
    merged = {view.uuid: view for views in answers.values() for view in views}
    reached = {view.uuid for view in filters.in_order(list(merged.values()), query)[: query.limit + 1]}
    return [alias for alias, views in answers.items() if len(views) == share and views[-1].uuid in reached]


def _completed(views: list[InstanceData], failures: dict[str, str]) -> list[InstanceData]:
    """Add faults and volumes to the page. If a cell fails now, its instances get the API database's values."""
    by_cell: dict[str, list[InstanceData]] = {}
    for view in views:
        if view.cell and not view.is_partial:
            by_cell.setdefault(view.cell, []).append(view)
    gathered = scatter_gather(lambda alias: instance_data.complete(alias, by_cell[alias]), by_cell)
    failures |= gathered.failures
    found = {view.uuid: view for answer in gathered.answers.values() for view in answer}
    lost = [view.uuid for alias in gathered.failures for view in by_cell[alias]]
    if lost:
        mappings = list(InstanceMapping.objects.filter(instance_uuid__in=lost))
        found |= {view.uuid: view for view in instance_data.of_mappings(mappings)}
    return [found.get(view.uuid, view) for view in views]


class _InstanceLocation(NamedTuple):
    """The API database's values of an instance. `cell` is "" while there is only a build request."""

    project_id: str
    is_deleted: bool
    build_run_uuid: str
    cell: str
    group_uuid: str


def _mapping_and_group(alias: str, instance_uuid: UUID) -> QuerySet[InstanceMapping, tuple[Any, ...]]:
    members = InstanceGroupMember.objects.using(alias).filter(instance_uuid=OuterRef("instance_uuid"))
    rows = InstanceMapping.objects.using(alias).filter(instance_uuid=instance_uuid)
    grouped = rows.annotate(group_uuid=Subquery(members.values("group__uuid")[:1]))
    return grouped.values_list("project_id", "is_deleted", "build_run_uuid", "cell__name", "group_uuid")


_places = CompiledQuery(_mapping_and_group)


def _place_of(instance_uuid: UUID) -> _InstanceLocation | None:
    for project_id, is_deleted, build_run_uuid, cell, group_uuid in _places.ask(API_ALIAS, instance_uuid):
        return _InstanceLocation(
            project_id, bool(is_deleted), uuid_text(build_run_uuid), cell or "", uuid_text(group_uuid)
        )
    return None


def _in_cell(instance_uuid: UUID, place: _InstanceLocation) -> InstanceData | None:
    def ask(alias: str) -> list[InstanceData]:
        return instance_data.complete(alias, instance_data.one(alias, instance_uuid))

    gathered = scatter_gather(ask, [place.cell])
    if not gathered.failures:
        return next(iter(gathered.answers[place.cell]), None)
    known = InstanceMapping.objects.filter(instance_uuid=instance_uuid, is_deleted=False)
    return next(iter(instance_data.of_mappings(list(known))), None)


def _requested(instance_uuid: UUID) -> InstanceData | None:
    row = BuildRequest.objects.filter(instance_uuid=instance_uuid).first()
    return instance_data.of_request(row) if row else None


def _requests(query: InstanceQuery, scope: Q, anchor: Anchor) -> list[InstanceData]:
    """Return instances without a cell, which are stored as JSON and few.

    So filters and orders other than that of creation are applied in Python.
    """
    rows = BuildRequest.objects.filter(scope)
    if filters.is_plain(query):
        rows = _page(rows, query, anchor, {"created_at": "created_at", "uuid": "instance_uuid"})
        return [instance_data.of_request(row) for row in rows]
    views = [instance_data.of_request(row) for row in rows]
    return [view for view in views if filters.fits(view, query) and _is_after(view, anchor)]


def _asking(query: InstanceQuery, scope: Q, anchor: Anchor, limit: int) -> Callable[[str], list[InstanceData]]:
    """Return a function that reads a cell's rows. The SQL is compiled once for each kind of database."""
    compiled: dict[str, instance_data.Statement | None] = {}
    pattern = filters.pattern_beside_sql(query)

    def ask(alias: str) -> list[InstanceData]:
        kind = connections[alias].vendor
        if kind not in compiled:
            rows = rows_of(alias, query, scope, anchor)
            if pattern is not None:
                narrowed = name_search.narrow(rows, pattern, limit)[:limit]
                return instance_data.read(alias, narrowed, with_runs=query.with_runs)
            rows = rows[:limit]
            compiled[kind] = instance_data.statement(alias, rows, with_runs=query.with_runs)
        return instance_data.fetch(alias, compiled[kind])

    return ask


def rows_of(alias: str, query: InstanceQuery, scope: Q, anchor: Anchor = ()) -> QuerySet[Instance]:
    """Return a cell's rows that a checked query matches, in the query's order, after the anchor."""
    rows = filters.of_rows(Instance.objects.using(alias).filter(scope), query)
    columns = {"uuid": "uuid"}
    for number, (name, _) in enumerate(query.sort):
        key = filters.SORT_KEYS[name]
        columns[name] = key.column
        if key.expression is not None:
            columns[name] = f"sort_{number}"
            rows = rows.annotate(**{columns[name]: key.expression})
    return _ordered(rows, query, anchor, columns)


def _unanswered(cells: list[str], query: InstanceQuery, scope: Q, anchor: Anchor) -> list[InstanceData]:
    rows = InstanceMapping.objects.filter(scope, cell__name__in=cells, is_deleted=False)
    paged = _page(rows, query, anchor, {"created_at": "created_at", "uuid": "instance_uuid"})
    return instance_data.of_mappings(list(paged))


def _page(rows: QuerySet[Row], query: InstanceQuery, anchor: Anchor, columns: dict[str, str]) -> QuerySet[Row]:
    return _ordered(rows, query, anchor, columns)[: query.limit + 1]


def _ordered(rows: QuerySet[Row], query: InstanceQuery, anchor: Anchor, columns: dict[str, str]) -> QuerySet[Row]:
    if anchor:
        rows = rows.filter(_after(anchor, columns))
    order = [("-" if is_descending else "") + columns[name] for name, is_descending in query.sort]
    return rows.order_by(*order, columns["uuid"])


def _after(anchor: Anchor, columns: dict[str, str]) -> Q:
    """Return the condition for rows after the anchor.

    The first column has a bound of its own, so that an index is used.
    """
    condition, equal_so_far = Q(), Q()
    for name, is_descending, value in anchor:
        comparison = "lt" if is_descending else "gt"
        condition |= equal_so_far & Q(**{f"{columns[name]}__{comparison}": value})
        equal_so_far &= Q(**{columns[name]: value})
    name, is_descending, value = anchor[0]
    return condition & Q(**{f"{columns[name]}__{'lte' if is_descending else 'gte'}": value})


def _is_after(view: InstanceData, anchor: Anchor) -> bool:
    for name, is_descending, value in anchor:
        own = filters.SORT_KEYS[name].value(view)
        if own != value:
            return bool(own < value) if is_descending else bool(own > value)
    return not anchor


def _anchor(context: RequestContext, query: InstanceQuery) -> Anchor:
    view = _marker_view(context, query.marker, is_plain=[name for name, _ in query.sort] == ["created_at"])
    values = [(name, is_descending, filters.SORT_KEYS[name].value(view)) for name, is_descending in query.sort]
    return [*values, ("uuid", False, view.uuid)]


def _marker_view(context: RequestContext, marker: str, *, is_plain: bool) -> InstanceData:
    """Return the marker's instance, also if it is deleted, so that paging continues when it is deleted meanwhile.

    Its creation time is known without its cell, and sufficient for the plain order.
    """
    for _ in range(ROUNDS):
        try:
            mapping = mapping_of(context, marker)
        except NotFound:
            raise Invalid(f"marker [{marker}] not found", field="marker") from None
        if is_plain:
            break
        view = _marker_in_cell(mapping) if mapping.cell else _requested(mapping.instance_uuid)
        if view is not None:
            return view
        if mapping.is_deleted:
            break
    return instance_data.of_mappings([mapping])[0]


def _marker_in_cell(mapping: InstanceMapping) -> InstanceData | None:
    assert mapping.cell is not None

    def ask(alias: str) -> list[InstanceData]:
        rows = Instance.objects.using(alias).filter(uuid=mapping.instance_uuid)
        return instance_data.read(alias, rows, with_runs=False)

    gathered = scatter_gather(ask, [mapping.cell.name])
    views = gathered.answers.get(mapping.cell.name) or instance_data.of_mappings([mapping])
    return views[0]


def _with_build_runs(views: list[InstanceData]) -> list[InstanceData]:
    """Set the build's run on instances that have had no workflow in their cell yet."""
    lacking = [UUID(view.uuid) for view in views if not view.run_uuid]
    if not lacking:
        return views
    runs = dict(
        InstanceMapping.objects.filter(instance_uuid__in=lacking).values_list("instance_uuid", "build_run_uuid")
    )
    return [view if view.run_uuid else replace(view, run_uuid=str(runs.get(UUID(view.uuid), ""))) for view in views]
