"""Finding instances: one by its uuid, and pages over build requests and all cells together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Model, Q, QuerySet

from conductor.api_db.models import BuildRequest, InstanceGroupMember, InstanceMapping
from conductor.cell_db.models import Instance
from conductor.cells.lookup import cell_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.services import instance_filters, instance_views
from conductor.services.values import InstanceQuery, InstanceView, Page

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
    for _ in range(ROUNDS):
        mapping = mapping_of(context, instance_uuid)
        view = _in_cell(mapping) if mapping.cell else _requested(mapping)
        if view is not None:
            return replace(view, group_uuid=_group_of(view.uuid))
        if mapping.cell or mapping.is_deleted:
            break
    raise missing(instance_uuid)


def list_page(context: RequestContext, query: InstanceQuery) -> Page[InstanceView]:
    """One page of instances of the asker's project (of all, for an administrator who asks for that).

    Requests are read before cells: an instance that moves meanwhile is seen twice, never missed, and its cell's
    row wins. Raises Invalid for an unknown filter, sort key or marker.
    """
    query = instance_filters.checked(query)
    scope = Q() if query.all_projects and context.is_admin else Q(project_id=context.project_id)
    anchor = _anchor(context, query) if query.marker else ()
    found = {view.uuid: view for view in _requests(query, scope, anchor)}
    gathered = scatter_gather(lambda alias: _rows(alias, query, scope, anchor), cell_aliases())
    for views in gathered.answers.values():
        found |= {view.uuid: view for view in views}
    if gathered.failures and instance_filters.is_plain(query):
        silent = _unanswered(list(gathered.failures), query, scope, anchor)
        found |= {view.uuid: view for view in silent if view.uuid not in found}
    ordered = instance_filters.in_order(list(found.values()), query)
    shown = _with_build_runs(ordered[: query.limit])
    return Page(shown, has_more=len(ordered) > query.limit, missing_cells=gathered.failures)


def _in_cell(mapping: InstanceMapping) -> InstanceView | None:
    assert mapping.cell is not None
    alias = mapping.cell.name

    def ask(alias: str) -> list[InstanceView]:
        rows = Instance.objects.using(alias).alive().filter(uuid=mapping.instance_uuid)
        return instance_views.of_rows(alias, list(instance_views.with_runs(rows, alias)))

    gathered = scatter_gather(ask, [alias])
    if gathered.failures:
        return None if mapping.is_deleted else instance_views.of_mappings([mapping])[0]
    found = gathered.answers[alias]
    return replace(found[0], run_uuid=found[0].run_uuid or str(mapping.build_run_uuid)) if found else None


def _requested(mapping: InstanceMapping) -> InstanceView | None:
    row = BuildRequest.objects.filter(instance_uuid=mapping.instance_uuid).first()
    return instance_views.of_request(row) if row else None


def _group_of(instance_uuid: str) -> str:
    member = InstanceGroupMember.objects.filter(instance_uuid=instance_uuid).select_related("group").first()
    return str(member.group.uuid) if member else ""


def _requests(query: InstanceQuery, scope: Q, anchor: Anchor) -> list[InstanceView]:
    """Instances without a cell. Few at a time, and kept as JSON: other orders than that of creation are made here."""
    rows = BuildRequest.objects.filter(scope)
    if instance_filters.is_plain(query):
        rows = _page(rows, query, anchor, {"created_at": "created_at", "uuid": "instance_uuid"})
        return [instance_views.of_request(row) for row in rows]
    views = [instance_views.of_request(row) for row in rows]
    return [view for view in views if instance_filters.fits(view, query) and _is_after(view, anchor)]


def _rows(alias: str, query: InstanceQuery, scope: Q, anchor: Anchor) -> list[InstanceView]:
    rows = instance_filters.of_rows(Instance.objects.using(alias).filter(scope), query)
    columns = {"uuid": "uuid"}
    for number, (name, _) in enumerate(query.sort):
        key = instance_filters.SORT_KEYS[name]
        columns[name] = key.column
        if key.expression is not None:
            columns[name] = f"sort_{number}"
            rows = rows.annotate(**{columns[name]: key.expression})
    paged = _page(instance_views.with_runs(rows, alias), query, anchor, columns)
    return instance_views.of_rows(alias, list(paged))


def _unanswered(cells: list[str], query: InstanceQuery, scope: Q, anchor: Anchor) -> list[InstanceView]:
    rows = InstanceMapping.objects.filter(scope, cell__name__in=cells, is_deleted=False)
    paged = _page(rows, query, anchor, {"created_at": "created_at", "uuid": "instance_uuid"})
    return instance_views.of_mappings(list(paged))


def _page(rows: QuerySet[Row], query: InstanceQuery, anchor: Anchor, columns: dict[str, str]) -> QuerySet[Row]:
    if anchor:
        rows = rows.filter(_after(anchor, columns))
    order = [("-" if is_descending else "") + columns[name] for name, is_descending in query.sort]
    return rows.order_by(*order, columns["uuid"])[: query.limit + 1]


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
    view = _marker_view(context, query.marker)
    values = [(name, is_descending, instance_filters.SORT_KEYS[name].value(view)) for name, is_descending in query.sort]
    return [*values, ("uuid", False, view.uuid)]


def _marker_view(context: RequestContext, marker: str) -> InstanceView:
    """The marker's instance, deleted ones included: a walk goes on when its marker went meanwhile."""
    for _ in range(ROUNDS):
        try:
            mapping = mapping_of(context, marker)
        except NotFound:
            raise Invalid(f"marker [{marker}] not found", field="marker") from None
        view = _marker_in_cell(mapping) if mapping.cell else _requested(mapping)
        if view is not None:
            return view
        if mapping.is_deleted:
            break
    return instance_views.of_mappings([mapping])[0]


def _marker_in_cell(mapping: InstanceMapping) -> InstanceView | None:
    assert mapping.cell is not None

    def ask(alias: str) -> list[InstanceView]:
        rows = Instance.objects.using(alias).filter(uuid=mapping.instance_uuid)
        return instance_views.of_rows(alias, list(instance_views.with_runs(rows, alias)))

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
