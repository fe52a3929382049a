"""List, create, show, update and delete: the same views for every collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from rest_framework.exceptions import MethodNotAllowed
from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.network import operations, revisions
from conductor.network.filters import NetworkListQuery
from portal.api.base import ApiRequest
from portal.api.links import absolute
from portal.api.network.resources import Resource
from portal.api.network.schemas.bodies import PROJECT
from portal.api.network.view import NetworkView
from portal.api.pagination import fit, parse_page
from portal.api.schema_parts import closed
from portal.api.validation import as_boolean, validate

PAGING = frozenset({"limit", "marker", "page_reverse", "sort_key", "sort_dir", "fields"})
DIRECTIONS = {"asc": False, "desc": True}
MAX_AT_ONCE = 100


class ResourceView(NetworkView):
    """Base of a collection's views; the route sets `resource`."""

    resource: ClassVar[Resource] = None  # type: ignore[assignment]

    def show(self, request: ApiRequest, row: Any) -> dict[str, Any]:
        """Return the row as JSON, limited to the `fields` in the query."""
        shown = self.resource.show(row, request.context)
        wanted = request.query_params.getlist("fields")
        return {name: value for name, value in shown.items() if name in wanted} if wanted else shown

    def one(self, request: ApiRequest, row: Any, *, status: int = 200) -> Response:
        return Response({self.resource.rule: self.show(request, row)}, status=status)


class Collection(ResourceView):
    """/v2.0/{collection}."""

    def get(self, request: ApiRequest) -> Response:
        resource = self.resource
        self.authorize(f"get_{resource.rule}")
        query = parse_query(request)
        extra = None if query.limit is None else query.limit + 1  # one extra row shows whether there is a next page
        found = resource.list(request.context, replace(query, limit=extra))
        cut = -query.limit if query.is_backwards and query.limit else None
        rows = found[cut:] if query.is_backwards else found[: query.limit]
        has_more = len(found) > len(rows)
        details = [self.show(request, row) for row in rows]
        if query.is_backwards:  # those that do not fit are the farthest from the marker
            kept, has_more = fit(details[::-1], has_more=has_more)
            shown, rows = kept[::-1], rows[len(rows) - len(kept) :]
        else:
            shown, has_more = fit(details, has_more=has_more)
            rows = rows[: len(shown)]
        return Response({resource.plural: shown} | page_links(request, resource.plural, query, rows, has_more=has_more))

    def post(self, request: ApiRequest) -> Response:
        """Create one from the singular name, or several from the plural name, all or none."""
        resource, creation = self.resource, self.resource.creation
        if creation is None:
            raise MethodNotAllowed("POST")
        self.authorize(f"create_{resource.rule}")
        body = request.data
        if not (isinstance(body, dict) and resource.plural in body):
            given = checked(body, resource.rule, creation.schema)
            row = creation.create(request.context, creation.parse(given, request.context))
            return self.one(request, row, status=201)
        items = checked(body, resource.plural, {"type": "array", "minItems": 1, "maxItems": MAX_AT_ONCE})
        requests = [creation.parse(validate(item, creation.schema), request.context) for item in items]
        rows = operations.create_all(request.context, creation.create, requests)
        return Response({resource.plural: [self.show(request, row) for row in rows]}, status=201)


class Member(ResourceView):
    """/v2.0/{collection}/{id}."""

    def get(self, request: ApiRequest, item_id: str) -> Response:
        self.authorize(f"get_{self.resource.rule}")
        return self.one(request, self.resource.get(request.context, item_id))

    def put(self, request: ApiRequest, item_id: str) -> Response:
        resource, updating = self.resource, self.resource.updating
        if updating is None:
            raise MethodNotAllowed("PUT")
        self.authorize(f"update_{resource.rule}")
        expected = expected_revision(request)
        row = resource.get(request.context, item_id)  # an unknown id is reported before an invalid body
        given = checked(request.data, resource.rule, updating.schema)
        wanted = updating.parse(given, request.context)
        changed = revisions.guarded(expected, row, lambda: updating.update(request.context, item_id, wanted))
        return self.one(request, changed)

    def delete(self, request: ApiRequest, item_id: str) -> Response:
        delete = self.resource.delete
        if delete is None:
            raise MethodNotAllowed("DELETE")
        self.authorize(f"delete_{self.resource.rule}")
        expected = expected_revision(request)
        row = self.resource.get(request.context, item_id) if expected is not None else None
        revisions.guarded(expected, row, lambda: delete(request.context, item_id))
        return Response(status=204)


def page_links(
    request: ApiRequest, name: str, query: NetworkListQuery, shown: Sequence[Any], *, has_more: bool
) -> dict[str, list[dict[str, str]]]:
    """Return the links `next` and `previous` of a page, as far as there are such pages.

    `has_more`: there are rows beyond the page in the query's direction. On the other side at least the marker is.
    """
    if not shown:
        return {}
    ahead, behind = has_more, bool(query.marker)
    after, before = (behind, ahead) if query.is_backwards else (ahead, behind)
    there = [("next", after, shown[-1], {}), ("previous", before, shown[0], {"page_reverse": "True"})]
    links = [
        {"rel": rel, "href": absolute(request, _path(request, {"marker": str(row.uuid), **more}))}
        for rel, is_there, row, more in there
        if is_there
    ]
    return {f"{name}_links": links} if links else {}


def _path(request: ApiRequest, more: Mapping[str, str]) -> str:
    query = request.query_params.copy()
    query.pop("page_reverse", None)
    for name, value in more.items():
        query[name] = value
    return f"{request.path}?{query.urlencode()}"


def checked(body: Any, name: str, schema: dict[str, Any]) -> Any:
    """Return the member `name` of the body, checked against `schema`. Raises Invalid naming the field."""
    return validate(body, closed({name: schema}, required=(name,)))[name]


def expected_revision(request: ApiRequest) -> int | None:
    """Return the revision in `If-Match: revision_number=3`; None without that header.

    Raises Invalid for any other form.
    """
    given = request.headers.get("If-Match", "").strip()
    if not given:
        return None
    name, _, number = given.partition("=")
    if name != "revision_number" or not (number.isascii() and number.isdigit() and len(number) <= 10):
        raise Invalid(f"Invalid input for If-Match. '{given[:60]}' is not revision_number=<number>.", field="If-Match")
    return int(number)


def checked_project(project_id: str) -> str:
    """Return the project id in a path. Raises Invalid if it is malformed."""
    return str(validate({"project_id": project_id}, closed({"project_id": PROJECT}))["project_id"])


def parse_query(request: ApiRequest) -> NetworkListQuery:
    """Parse the query of a list. Raises Invalid naming the parameter that is wrong."""
    given = request.query_params
    for name in given:
        if any("\0" in value for value in given.getlist(name)):
            raise Invalid(f"Invalid input for query parameter {name[:60]}. It holds a NUL character.")
    page = parse_page(request)
    keys, directions = given.getlist("sort_key"), given.getlist("sort_dir")
    if len(directions) not in (0, len(keys)):
        raise Invalid("The number of sort_keys and sort_dirs must be same.")
    for direction in directions:
        if direction not in DIRECTIONS:
            raise Invalid(f"Invalid input for sort_dir. '{direction[:60]}' is not asc or desc.")
    directions = directions or ["asc"] * len(keys)
    return NetworkListQuery(
        filters={name: given.getlist(name) for name in given if name not in PAGING},
        sort=[(key, DIRECTIONS[direction]) for key, direction in zip(keys, directions, strict=True)],
        limit=page.limit or None if "limit" in given else None,
        marker=page.marker,
        is_backwards=as_boolean(given.get("page_reverse", False), "page_reverse"),
    )
