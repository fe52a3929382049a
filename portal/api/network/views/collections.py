"""List, create, show, update and delete: the same views for every collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from rest_framework.exceptions import MethodNotAllowed
from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.network import operations, revisions
from conductor.network.filters import NetworkListQuery
from portal.api.base import ApiRequest
from portal.api.links import absolute
from portal.api.network import queries
from portal.api.network.resources import NetworkResource
from portal.api.network.schemas.bodies import PROJECT
from portal.api.network.view import NetworkView
from portal.api.pagination import fit, parse_page
from portal.api.schema_parts import closed
from portal.api.validation import validate

_PROJECT = closed({"project_id": PROJECT})


class ResourceView(NetworkView):
    """Base of a collection's views; the route sets `resource`."""

    resource: ClassVar[NetworkResource] = None  # type: ignore[assignment]

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
        self.authorize(f"get_{self.resource.rule}")
        return self.listed(request, parse_query(request))

    def listed(self, request: ApiRequest, query: NetworkListQuery) -> Response:
        """Return the page of a query, with links to those beside it."""
        resource = self.resource
        page = queries.page(resource, request.context, query)
        details = [self.show(request, row) for row in page.items]
        if query.is_backwards:  # those that do not fit are the farthest from the marker
            kept, has_more = fit(details[::-1], has_more=page.has_more)
            shown, rows = kept[::-1], page.items[len(details) - len(kept) :]
        else:
            shown, has_more = fit(details, has_more=page.has_more)
            rows = page.items[: len(shown)]
        return Response({resource.plural: shown} | page_links(request, resource.plural, query, rows, has_more=has_more))

    def post(self, request: ApiRequest) -> Response:
        """Create one from the singular name, or several from the plural name, all or none."""
        resource, creation = self.resource, self.resource.creation
        if creation is None:
            raise MethodNotAllowed("POST")
        self.authorize(f"create_{resource.rule}")
        body = request.data
        if not (isinstance(body, dict) and resource.plural in body):
            given = validate(body, resource.creation_body)[resource.rule]
            row = creation.create(request.context, creation.parse(given, request.context))
            return self.one(request, row, status=201)
        items = validate(body, resource.bulk_body)[resource.plural]
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
        given = validate(request.data, resource.update_body)[resource.rule]
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
    return str(validate({"project_id": project_id}, _PROJECT)["project_id"])


def parse_query(request: ApiRequest) -> NetworkListQuery:
    """Parse the query of a list. Raises Invalid naming the parameter that is wrong."""
    page = parse_page(request)
    given = dict(request.query_params.lists())
    return queries.parse(given, limit=page.limit if "limit" in given else 0, marker=page.marker)
