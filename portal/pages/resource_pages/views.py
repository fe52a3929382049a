"""Pages that all kinds of resources share: the list, and the page of one resource. Forms are in `actions`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from conductor.core.context import RequestContext
from conductor.core.errors import NotFound, NovellaError
from conductor.services.workflows import locks, workflows
from conductor.services.workflows.locks import LockQuery, LockView
from portal.pages import page_lengths, policies
from portal.pages.live_marks import live_marks
from portal.pages.permissions import PageRequest, signed_in
from portal.pages.resource_pages.catalog import BY_ID, may_do
from portal.pages.resource_pages.server_resources import SERVER
from portal.pages.resources import columns, forms, service_calls
from portal.pages.resources.model import (
    Cell,
    Column,
    Item,
    Names,
    RelatedTable,
    Resource,
    ResourceAction,
)
from portal.pages.timeline import presenter
from portal.pages.timeline.presenter import WorkflowPresenter

PAGE_SIZE = 50
MOST_AT_WORK = 5
MOST = 1000
DIRECTIONS = ("asc", "desc")
SHARING = frozenset({"image", "network"})  # services whose resources can be shared between projects


@dataclass(frozen=True)
class ResourceRow:
    """A resource in a list."""

    ident: str
    name: str
    url: str
    cells: list[tuple[Column, Cell]]


@dataclass(frozen=True)
class ActionLink:
    """An action on a resource; `why_not` is empty if it is available now.

    `is_requested`: it was requested, and the resource's state does not show it yet.
    """

    action: ResourceAction
    url: str
    why_not: str
    is_requested: bool = False


def resource_of(request: PageRequest, resource_id: str) -> Resource:
    """Return the kind of resource. Raises Http404, also if the kind is for operators and the caller is not one."""
    found = BY_ID.get(resource_id)
    if found is None or (found.is_for_operators and not request.caller.is_admin):
        raise Http404
    return found


@require_safe
@signed_in
def resource_list(request: PageRequest, resource_id: str) -> HttpResponse:
    """Show the list. Filter, order and page are in the query string."""
    resource = resource_of(request, resource_id)
    context = {**live_marks("things", "list"), **list_context(request, resource)}
    return render(request, "resource_pages/_list.html" if request.htmx else "resource_pages/list.html", context)


def list_context(request: PageRequest, resource: Resource, narrowed: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the template context of a list; `narrowed` filters it for tables on other resources' pages."""
    given: dict[str, str] = {}
    if narrowed is None:
        given = {name: str(value) for name, value in request.GET.items() if value}
    items, next_query = _found(request, resource, given, narrowed or {})
    names = names_for(request, resource)
    caller = request.caller
    shown = [column for column in resource.columns if column.is_in_list]
    return {
        "caller": caller,
        "resource": resource,
        "rows": [_row(resource, item, names) for item in items],
        "columns": [_head(resource, column, given) for column in shown],
        "given": given,
        "filters": [
            forms.FormQuestion(
                one, given.get(one.name, ""), forms.in_words(one.choices) if isinstance(one.choices, tuple) else ()
            )
            for one in resource.filters
        ],
        "is_narrowed": any(given.get(name) for name in ("q", *(one.name for one in resource.filters))),
        "creations": [
            ActionLink(action, action_url(resource, action), "")
            for action in resource.actions
            if action.is_creation and may_do(caller, resource, action)
        ],
        "bulk": [action for action in resource.actions if action.is_bulk and may_do(caller, resource, action)],
        "next_url": f"{list_url(resource)}?{urlencode(next_query)}" if next_query else "",
        "first_url": list_url(resource) if given.get("marker") else "",
        "query": urlencode(given),
        **page_lengths.other(list_url(resource), given, PAGE_SIZE, has_others=bool(next_query or given.get("marker"))),
    }


def _found(
    request: PageRequest, resource: Resource, given: Mapping[str, str], narrowed: Mapping[str, str]
) -> tuple[list[Item], dict[str, str]]:
    """Return the items of a page, and the query of the next page."""
    text = given.get("q", "").strip()[:255]
    filters = {one.name: given[one.name] for one in resource.filters if given.get(one.name)}
    query: dict[str, Any] = {**filters, **narrowed, **_sorting(resource, given)}
    in_page = bool(text) and not resource.search
    if text and resource.search:
        query[resource.search] = text
    if resource.is_paged:
        query["limit"] = MOST if in_page else page_lengths.rows_of(given, PAGE_SIZE)
        query |= {"marker": given["marker"]} if given.get("marker") and not in_page else {}
    page = service_calls.list_items(request.caller, resource, query)
    items = page.items
    if in_page:
        return [item for item in items if text.lower() in resource.name_of(item).lower()], {}
    if not (page.has_more and items and resource.is_paged):
        return items, {}
    return items, {
        **{name: value for name, value in given.items() if name != "marker"},
        "marker": resource.id_of(items[-1]),
    }


def find(request: PageRequest, resource: Resource, text: str) -> list[Item]:
    """Return the items whose name contains the text, as the list's search finds them."""
    return _found(request, resource, {"q": text}, {})[0]


def all_of(request: PageRequest, resource: Resource, given: Mapping[str, str]) -> list[str]:
    """Return the ids of the first 500 items of a list's query."""
    whole = {name: value for name, value in given.items() if name != "marker"} | {"rows": str(page_lengths.LONG_PAGE)}
    return [resource.id_of(item) for item in _found(request, resource, whole, {})[0]][: page_lengths.LONG_PAGE]


def _sorting(resource: Resource, given: Mapping[str, str]) -> dict[str, str]:
    known = {column.sort for column in resource.columns if column.sort}
    key, _, direction = given.get("sort", "").partition(":")
    if not resource.sorting or key not in known or direction not in DIRECTIONS:
        return {}
    if resource.sorting == "sort":
        return {"sort": f"{key}:{direction}"}
    return {"sort_key": key, "sort_dir": direction}


def _head(resource: Resource, column: Column, given: Mapping[str, str]) -> dict[str, Any]:
    """Return a column's header: a link that reverses the order, if the API supports it."""
    if not (resource.sorting and column.sort):
        return {"column": column}
    key, _, direction = given.get("sort", "").partition(":")
    is_sorted = key == column.sort
    other = "desc" if is_sorted and direction == "asc" else "asc"
    kept = {name: value for name, value in given.items() if name not in ("sort", "marker")}
    url = f"{list_url(resource)}?{urlencode({**kept, 'sort': f'{column.sort}:{other}'})}"
    words = {"asc": "ascending", "desc": "descending"}.get(direction, "") if is_sorted else ""
    return {"column": column, "url": url, "direction": words}


def names_for(request: PageRequest, resource: Resource) -> Names:
    """Return the names of the resources that columns refer to, with one request per kind."""
    found: dict[str, dict[str, str]] = {}
    for kind in resource.names:
        named = SERVER if kind == "servers" else BY_ID[kind]
        if named.is_for_operators and not request.caller.is_admin:
            continue
        try:
            items = service_calls.list_items(request.caller, named, {"limit": MOST}).items
        except NovellaError:
            continue
        found[kind] = {str(one["id"]): str(one.get("name") or "") for one in items}
    return found


def _row(resource: Resource, item: Item, names: Names) -> ResourceRow:
    shown = [(column, column.show(item, names)) for column in resource.columns if column.is_in_list]
    ident = resource.id_of(item)
    return ResourceRow(ident, resource.name_of(item) or ident[:8], item_url(resource, ident), shown)


def list_url(resource: Resource) -> str:
    return reverse(resource.list_route) if resource.list_route else reverse("resources", args=[resource.id])


def item_url(resource: Resource, ident: str) -> str:
    if resource.page_route:
        return reverse(resource.page_route, args=[ident])
    return f"{list_url(resource)}/of/{quote(ident, safe='')}"


def whole_url(resource: Resource, item: Item) -> str:
    """Return the address of the resource that an item is a part of; that of the list for none."""
    kind, name = resource.whole
    return item_url(BY_ID[kind], str(item[name])) if kind and item.get(name) else list_url(resource)


def whole_link(resource: Resource, item: Item, names: Names) -> Cell | None:
    """Return the link to the resource that an item is a part of; None for none."""
    kind, name = resource.whole
    return columns.link_to(str(item[name]), kind, names) if kind and item.get(name) else None


def action_url(resource: Resource, action: ResourceAction, ident: str = "") -> str:
    url = reverse("resource-action", args=[resource.id, action.id])
    return f"{url}?{urlencode({'item': ident})}" if ident else url


@require_safe
@signed_in
def resource_page(request: PageRequest, resource_id: str, ident: str) -> HttpResponse:
    """Show a resource with its details, actions and related tables; as a drawer if it was opened from the list."""
    resource = resource_of(request, resource_id)
    context = {**live_marks("things", "page"), **page_context(request, resource, ident)}
    return render(request, "resource_pages/_page.html" if request.htmx else "resource_pages/page.html", context)


def page_context(request: PageRequest, resource: Resource, ident: str) -> dict[str, Any]:
    """Return the template context of one resource's page. Raises NotFound."""
    item = item_of(request, resource, ident)
    names = names_for(request, resource)
    others = "The resource belongs to another project." if _is_of_others(request.caller, resource, item) else ""
    held = _held(request.caller, resource, ident)
    # a shared lock does not block other workflows
    whole = {lock.flow for lock in held if lock.resource == f"{resource.lock}:{ident}"}
    links = [
        ActionLink(
            action,
            action_url(resource, action, ident),
            others or action.why_not(item),
            is_requested=action.flow in whole,
        )
        for action in resource.actions
        if not action.is_creation and may_do(request.caller, resource, action)
    ]
    return {
        "caller": request.caller,
        "resource": resource,
        "ident": ident,
        "name": resource.name_of(item) or ident[:8],
        "list_url": list_url(resource),
        "item_url": item_url(resource, ident),
        "whole": whole_link(resource, item, names),
        "facts": [(column, column.show(item, names)) for column in resource.columns],
        "state": next((cell for cell in (c.show(item, names) for c in resource.columns) if cell.kind == "state"), None),
        "links": [link for link in links if not link.why_not],
        "not_available": [link for link in links if link.why_not],
        "at_work": _at_work(request.caller, held),
        "parts": [_part(request, part, item, ident) for part in resource.parts],
    }


def _is_of_others(caller: RequestContext, resource: Resource, item: Item) -> bool:
    """Whether another project owns the resource and shares it, so that the caller may use but not change it."""
    owner = item.get("owner") or item.get("project_id") or caller.project_id
    return resource.service in SHARING and not caller.is_admin and owner != caller.project_id


def _held(caller: RequestContext, resource: Resource, ident: str) -> list[LockView]:
    if not resource.lock:
        return []
    return locks.list_locks(caller, LockQuery(resource=f"{resource.lock}:{ident}", limit=MOST_AT_WORK)).items


def _at_work(caller: RequestContext, held: Sequence[LockView]) -> list[WorkflowPresenter]:
    """Return the workflows that lock the resource, with their progress."""
    return [
        presenter.of(run)
        for run in workflows.briefs(caller, [lock.run_uuid for lock in held if lock.run_uuid]).values()
    ]


def _part(request: PageRequest, part: RelatedTable, item: Item, ident: str) -> dict[str, Any]:
    resource = BY_ID[part.resource]
    action = resource.action(part.create) if part.create else None
    may_create = (
        action is not None
        and may_do(request.caller, resource, action)
        and not _is_of_others(request.caller, resource, item)
    )
    values = part.create_values(item) if part.create_values else {part.create_field: ident}
    url = f"{action_url(resource, action)}?{urlencode(values)}" if action is not None and may_create and values else ""
    return {
        **list_context(request, resource, part.query(item)),
        "part": part,
        "create": action,
        "create_url": url,
    }


def item_of(request: PageRequest, resource: Resource, ident: str) -> Item:
    """Return the resource. Raises NotFound."""
    return items_of(request, resource, [ident])[0]


def items_of(
    request: PageRequest, resource: Resource, idents: Sequence[str], gone: list[str] | None = None
) -> list[Item]:
    """Return several resources in this order. Kinds that the API can only list are listed once.

    Raises NotFound, unless `gone` collects the ids that do not exist (any longer).
    """
    listed: dict[str, Item] = {}
    if resource.is_only_listed and idents:
        page = service_calls.list_items(request.caller, resource, {})
        listed = {resource.id_of(item): item for item in page.items}
    found = []
    for ident in idents:
        try:
            found.append(_item(request, resource, ident, listed))
        except NotFound:
            if gone is None:
                raise
            gone.append(ident)
    return found


def _item(request: PageRequest, resource: Resource, ident: str, listed: Mapping[str, Item]) -> Item:
    if resource.is_only_listed:
        if ident not in listed:
            raise NotFound(gettext("It no longer exists."))
        item = listed[ident]
    else:
        item = service_calls.get_item(request.caller, resource, ident)
    return {**item, **_more_of(request, resource, ident)} if resource.more else item


def _more_of(request: PageRequest, resource: Resource, ident: str) -> dict[str, Any]:
    """Return the results of additional requests. A refused request adds nothing."""
    found: dict[str, Any] = {}
    for more in resource.more:
        if policies.may(request.caller, more.service or resource.service, more.rule):
            try:
                found[more.name] = more.read(request.caller, ident)
            except NovellaError:
                found[more.name] = None
    return found
