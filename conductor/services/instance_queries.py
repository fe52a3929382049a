"""Finding instances: one by its uuid, and pages over build requests and all cells together."""

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
from conductor.cells.scatter_gather import Gathered, scatter_gather
from conductor.core.context import RequestContext
from conductor.core.errors import CellUnavailable, Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.services import instance_filters, instance_rows, instance_views, name_patterns
from conductor.services.values import InstanceQuery, InstanceView, Page
from conductor.sql.worded import AboutOne, uuid_text

# An instance moves from request to cell while it is looked for; each round sees a later state of it.
ROUNDS = 5
Row = TypeVar("Row", bound=Model)
Anchor = Sequence[tuple[str, bool, Any]]  # sort key, is_descending, the marker's value


def missing(instance_uuid: str) -> NotFound:
    """The answer for an instance that is not there, or not the asker's."""
    return NotFound(f"Instance {instance_uuid} could not be found.")


def mapping_of(context: RequestContext, instance_uuid: str) -> InstanceMapping:
    """Where an instance is. Raises NotFound, also for another project's."""
    wanted = uuid_or_none(instance_uuid)
    row = InstanceMapping.objects.select_related("cell").filter(instance_uuid=wanted).first() if wanted else None
    if row is None or not context.may_see_project(row.project_id):
        raise missing(instance_uuid)
    return row


def get(context: RequestContext, instance_uuid: str) -> InstanceView:
    """An instance, whether built or still asked for; partial when its cell is silent. Raises NotFound."""
    wanted = uuid_or_none(instance_uuid)
    for _ in range(ROUNDS):
        place = _place_of(wanted) if wanted else None
        if wanted is None or place is None or not context.may_see_project(place.project_id):
            break
        view = _in_cell(wanted, place) if place.cell else _requested(wanted)
        if view is not None:
            return instance_rows.with_values(
                view, run_uuid=view.run_uuid or place.build_run_uuid, group_uuid=place.group_uuid
            )
        if place.cell or place.is_deleted:
            break
    raise missing(instance_uuid)


def list_page(context: RequestContext, query: InstanceQuery) -> Page[InstanceView]:
    """One page of instances of the asker's project (of all, for an administrator who asks for that).

    Requests are read before cells: an instance that moves meanwhile is seen twice, never missed, and its cell's
    row wins. Raises Invalid for an unknown filter, sort key or marker, and CellUnavailable where the query says so.
    """
    query = instance_filters.checked(query)
    scope = Q() if query.all_projects and context.is_admin else Q(project_id=context.project_id)
    anchor = _anchor(context, query) if query.marker else ()
    found = {view.uuid: view for view in _requests(query, scope, anchor)}
    gathered = _from_cells(query, scope, anchor)
    for views in gathered.answers.values():
        found |= {view.uuid: view for view in views}
    can_be_partial = query.with_partial and instance_filters.is_plain(query)
    if gathered.failures and query.must_be_whole and not can_be_partial:
        raise CellUnavailable(f"A list would lack what is in cells that do not answer: {', '.join(gathered.failures)}.")
    if gathered.failures and can_be_partial:
        silent = _unanswered(list(gathered.failures), query, scope, anchor)
        found |= {view.uuid: view for view in silent if view.uuid not in found}
    ordered = instance_filters.in_order(list(found.values()), query)
    shown = _completed(ordered[: query.limit], gathered.failures)
    if query.with_runs:
        shown = _with_build_runs(shown)
    return Page(shown, has_more=len(ordered) > query.limit, missing_cells=gathered.failures)


def _from_cells(query: InstanceQuery, scope: Q, anchor: Anchor) -> Gathered[list[InstanceView]]:
    """Rows that the page is made of: from each cell its share and some more, and a whole page from one that ran out."""
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
    """How many rows a cell is asked for first: where servers lie evenly, one page in a hundred needs more."""
    mean = limit / max(1, len(cell_aliases(with_cell0=False)))
    return min(limit + 1, math.ceil(mean + 3 * math.sqrt(mean)) + 1)


def _spent(answers: Mapping[str, list[InstanceView]], query: InstanceQuery, share: int) -> list[str]:
    """Cells that gave all they were asked for and whose last row the page reaches: they may have more for it."""
    if share > query.limit:
        return []
    merged = {view.uuid: view for views in answers.values() for view in views}
    reached = {view.uuid for view in instance_filters.in_order(list(merged.values()), query)[: query.limit + 1]}
    return [alias for alias, views in answers.items() if len(views) == share and views[-1].uuid in reached]


def _completed(views: list[InstanceView], failures: dict[str, str]) -> list[InstanceView]:
    """The page with faults and volumes. Of a cell that falls silent just now what else is known stands in its place."""
    by_cell: dict[str, list[InstanceView]] = {}
    for view in views:
        if view.cell and not view.is_partial:
            by_cell.setdefault(view.cell, []).append(view)
    gathered = scatter_gather(lambda alias: instance_rows.complete(alias, by_cell[alias]), by_cell)
    failures |= gathered.failures
    found = {view.uuid: view for answer in gathered.answers.values() for view in answer}
    lost = [view.uuid for alias in gathered.failures for view in by_cell[alias]]
    if lost:
        mappings = list(InstanceMapping.objects.filter(instance_uuid__in=lost))
        found |= {view.uuid: view for view in instance_views.of_mappings(mappings)}
    return [found.get(view.uuid, view) for view in views]


class _Place(NamedTuple):
    """What the API database knows of an instance; `cell` is "" while it is being asked for."""

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


_places = AboutOne(_mapping_and_group)


def _place_of(instance_uuid: UUID) -> _Place | None:
    for project_id, is_deleted, build_run_uuid, cell, group_uuid in _places.ask(API_ALIAS, instance_uuid):
        return _Place(project_id, bool(is_deleted), uuid_text(build_run_uuid), cell or "", uuid_text(group_uuid))
    return None


def _in_cell(instance_uuid: UUID, place: _Place) -> InstanceView | None:
    def ask(alias: str) -> list[InstanceView]:
        return instance_rows.complete(alias, instance_rows.one(alias, instance_uuid))

    gathered = scatter_gather(ask, [place.cell])
    if not gathered.failures:
        return next(iter(gathered.answers[place.cell]), None)
    known = InstanceMapping.objects.filter(instance_uuid=instance_uuid, is_deleted=False)
    return next(iter(instance_views.of_mappings(list(known))), None)


def _requested(instance_uuid: UUID) -> InstanceView | None:
    row = BuildRequest.objects.filter(instance_uuid=instance_uuid).first()
    return instance_views.of_request(row) if row else None


def _requests(query: InstanceQuery, scope: Q, anchor: Anchor) -> list[InstanceView]:
    """Instances without a cell. Few at a time, and kept as JSON: other orders than that of creation are made here."""
    rows = BuildRequest.objects.filter(scope)
    if instance_filters.is_plain(query):
        rows = _page(rows, query, anchor, {"created_at": "created_at", "uuid": "instance_uuid"})
        return [instance_views.of_request(row) for row in rows]
    views = [instance_views.of_request(row) for row in rows]
    return [view for view in views if instance_filters.fits(view, query) and _is_after(view, anchor)]


def _asking(query: InstanceQuery, scope: Q, anchor: Anchor, limit: int) -> Callable[[str], list[InstanceView]]:
    """Asks a cell for its rows, in words that are made once for each kind of database and not for each cell."""
    worded: dict[str, instance_rows.Statement | None] = {}
    pattern = instance_filters.pattern_beside_sql(query)

    def ask(alias: str) -> list[InstanceView]:
        kind = connections[alias].vendor
        if kind not in worded:
            rows = _rows(alias, query, scope, anchor)
            if pattern is not None:
                narrowed = name_patterns.narrow(rows, pattern, limit)[:limit]
                return instance_rows.read(alias, narrowed, with_runs=query.with_runs)
            rows = rows[:limit]
            worded[kind] = instance_rows.statement(alias, rows, with_runs=query.with_runs)
        return instance_rows.fetch(alias, worded[kind])

    return ask


def _rows(alias: str, query: InstanceQuery, scope: Q, anchor: Anchor) -> QuerySet[Instance]:
    rows = instance_filters.of_rows(Instance.objects.using(alias).filter(scope), query)
    columns = {"uuid": "uuid"}
    for number, (name, _) in enumerate(query.sort):
        key = instance_filters.SORT_KEYS[name]
        columns[name] = key.column
        if key.expression is not None:
            columns[name] = f"sort_{number}"
            rows = rows.annotate(**{columns[name]: key.expression})
    return _ordered(rows, query, anchor, columns)


def _unanswered(cells: list[str], query: InstanceQuery, scope: Q, anchor: Anchor) -> list[InstanceView]:
    rows = InstanceMapping.objects.filter(scope, cell__name__in=cells, is_deleted=False)
    paged = _page(rows, query, anchor, {"created_at": "created_at", "uuid": "instance_uuid"})
    return instance_views.of_mappings(list(paged))


def _page(rows: QuerySet[Row], query: InstanceQuery, anchor: Anchor, columns: dict[str, str]) -> QuerySet[Row]:
    return _ordered(rows, query, anchor, columns)[: query.limit + 1]


def _ordered(rows: QuerySet[Row], query: InstanceQuery, anchor: Anchor, columns: dict[str, str]) -> QuerySet[Row]:
    if anchor:
        rows = rows.filter(_after(anchor, columns))
    order = [("-" if is_descending else "") + columns[name] for name, is_descending in query.sort]
    return rows.order_by(*order, columns["uuid"])


def _after(anchor: Anchor, columns: dict[str, str]) -> Q:
    """Rows that come after the anchor. The first column is bounded by itself, so that an index can begin there."""
    condition, equal_so_far = Q(), Q()
    for name, is_descending, value in anchor:
        comparison = "lt" if is_descending else "gt"
        condition |= equal_so_far & Q(**{f"{columns[name]}__{comparison}": value})
        equal_so_far &= Q(**{columns[name]: value})
    name, is_descending, value = anchor[0]
    return condition & Q(**{f"{columns[name]}__{'lte' if is_descending else 'gte'}": value})


def _is_after(view: InstanceView, anchor: Anchor) -> bool:
    for name, is_descending, value in anchor:
        own = instance_filters.SORT_KEYS[name].value(view)
        if own != value:
            return bool(own < value) if is_descending else bool(own > value)
    return not anchor


def _anchor(context: RequestContext, query: InstanceQuery) -> Anchor:
    view = _marker_view(context, query.marker, is_plain=[name for name, _ in query.sort] == ["created_at"])
    values = [(name, is_descending, instance_filters.SORT_KEYS[name].value(view)) for name, is_descending in query.sort]
    return [*values, ("uuid", False, view.uuid)]


def _marker_view(context: RequestContext, marker: str, *, is_plain: bool) -> InstanceView:
    """The marker's instance, deleted ones included: a walk goes on when its marker went meanwhile.

    When it was made is known without its cell, which is all that a plain order needs.
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
    return instance_views.of_mappings([mapping])[0]


def _marker_in_cell(mapping: InstanceMapping) -> InstanceView | None:
    assert mapping.cell is not None

    def ask(alias: str) -> list[InstanceView]:
        rows = Instance.objects.using(alias).filter(uuid=mapping.instance_uuid)
        return instance_rows.read(alias, rows, with_runs=False)

    gathered = scatter_gather(ask, [mapping.cell.name])
    views = gathered.answers.get(mapping.cell.name) or instance_views.of_mappings([mapping])
    return views[0]


def _with_build_runs(views: list[InstanceView]) -> list[InstanceView]:
    """Instances on which their cell has had no workflow yet show the one that asked for them."""
    lacking = [UUID(view.uuid) for view in views if not view.run_uuid]
    if not lacking:
        return views
    runs = dict(
        InstanceMapping.objects.filter(instance_uuid__in=lacking).values_list("instance_uuid", "build_run_uuid")
    )
    return [view if view.run_uuid else replace(view, run_uuid=str(runs.get(UUID(view.uuid), ""))) for view in views]
