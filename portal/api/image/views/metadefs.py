"""Metadata definitions: /v2/metadefs."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.image import metadefs
from conductor.image.models import Definition, Namespace
from portal.api.base import ApiRequest
from portal.api.image.representations.images import moment
from portal.api.image.schemas import metadefs as schemas
from portal.api.image.view import ImageView
from portal.api.links import absolute
from portal.api.pagination import parse_page
from portal.api.validation import validate

ROOT = "/v2/metadefs/namespaces"
# kind → the last part of the route, and the name of the list
NOUNS = {"object": "objects", "property": "properties", "tag": "tags", "resource_type": "resource_types"}
STAMPS = ("created_at", "updated_at", "self", "schema")
FILTERS = ("visibility", "resource_types")


class Namespaces(ImageView):
    """/v2/metadefs/namespaces."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("get_metadef_namespaces")
        page, given = parse_page(request), request.query_params
        word = given.get("sort_dir", "desc")
        if word not in ("asc", "desc"):
            raise Invalid(f"Invalid sort direction: {word[:60]}. It must be asc or desc.", field="sort_dir")
        found = metadefs.list_namespaces(
            request.context,
            filters={name: given[name] for name in FILTERS if name in given},
            sort=(given.get("sort_key", "created_at"), word == "desc"),
            limit=page.limit + 1,
            marker=page.marker,
        )
        body: dict[str, Any] = {
            "namespaces": [_namespace(row) for row in found[: page.limit]],
            "first": ROOT,
            "schema": "/v2/schemas/metadefs/namespaces",
        }
        if len(found) > page.limit > 0:
            following = given.copy()
            following["marker"] = found[page.limit - 1].name
            body["next"] = f"{ROOT}?{following.urlencode()}"
        return Response(body)

    def post(self, request: ApiRequest) -> Response:
        self.authorize("add_metadef_namespace")
        given = validate(request.data, schemas.NAMESPACE)
        definitions = {
            "resource_type": given.get("resource_type_associations", []),
            "object": given.get("objects", []),
            "tag": given.get("tags", []),
            "property": [{"name": name, **body} for name, body in given.get("properties", {}).items()],
        }
        plain = {kind: [_plain(item) for item in items] for kind, items in definitions.items()}
        row = metadefs.create(request.context, _values(given), plain)
        shown = _namespace(row)
        return Response(shown, status=201, headers={"Location": absolute(request, f"/image{shown['self']}")})


class NamespaceByName(ImageView):
    """/v2/metadefs/namespaces/{name}."""

    def get(self, request: ApiRequest, namespace: str) -> Response:
        self.authorize("get_metadef_namespace")
        row = metadefs.get(request.context, namespace)
        items = {kind: metadefs.list_definitions(request.context, namespace, kind) for kind in NOUNS}
        shown = _namespace(row)
        if items["object"]:
            shown["objects"] = [_definition(item) for item in items["object"]]
        if items["tag"]:
            shown["tags"] = [{"name": item.name} for item in items["tag"]]
        if items["property"]:
            shown["properties"] = {item.name: item.body for item in items["property"]}
        return Response(shown)

    def put(self, request: ApiRequest, namespace: str) -> Response:
        self.authorize("modify_metadef_namespace")
        metadefs.get(request.context, namespace)
        values = _values(validate(request.data, schemas.NAMESPACE))
        return Response(_namespace(metadefs.update(request.context, namespace, values)))

    def delete(self, request: ApiRequest, namespace: str) -> Response:
        self.authorize("delete_metadef_namespace")
        metadefs.delete(request.context, namespace)
        return Response(status=204)


class Definitions(ImageView):
    """/v2/metadefs/namespaces/{name}/{objects, properties, tags, resource_types}."""

    kind: ClassVar[str] = ""

    def get(self, request: ApiRequest, namespace: str) -> Response:
        self.authorize(f"get_metadef_{NOUNS[self.kind]}")
        found = metadefs.list_definitions(request.context, namespace, self.kind)
        if self.kind == "property":
            return Response({"properties": {row.name: row.body for row in found}})
        if self.kind == "resource_type":
            return Response({"resource_type_associations": [_definition(row) for row in found]})
        noun = NOUNS[self.kind]
        shown = [_definition(row) for row in found]
        return Response({noun: shown, "first": f"{ROOT}/{namespace}/{noun}", "schema": f"/v2/schemas/metadefs/{noun}"})

    def post(self, request: ApiRequest, namespace: str) -> Response:
        self.authorize(f"add_metadef_{self.kind}")
        metadefs.get(request.context, namespace)
        if self.kind == "tag":
            items = [_plain(item) for item in validate(request.data, schemas.TAGS)["tags"]]
            metadefs.replace_all(request.context, namespace, "tag", _distinct(items))
            return Response({"tags": [{"name": item["name"]} for item in items]}, status=201)
        item = _plain(validate(request.data, schemas.BODIES[self.kind]))
        return Response(_definition(metadefs.add(request.context, namespace, self.kind, item)), status=201)

    def delete(self, request: ApiRequest, namespace: str) -> Response:
        self.authorize(f"delete_metadef_{self.kind}")
        metadefs.remove(request.context, namespace, self.kind)
        return Response(status=204)


class DefinitionByName(ImageView):
    """One definition."""

    kind: ClassVar[str] = ""

    def get(self, request: ApiRequest, namespace: str, name: str) -> Response:
        self.authorize(f"get_metadef_{NOUNS[self.kind]}")
        return Response(_definition(metadefs.get_definition(request.context, namespace, self.kind, name)))

    def post(self, request: ApiRequest, namespace: str, name: str) -> Response:
        """Create a tag: it has only a name."""
        if self.kind != "tag":
            return self.http_method_not_allowed(request)
        self.authorize("add_metadef_tag")
        validate({"name": name}, schemas.TAG)
        return Response(_definition(metadefs.add(request.context, namespace, "tag", {"name": name})), status=201)

    def put(self, request: ApiRequest, namespace: str, name: str) -> Response:
        if self.kind == "resource_type":
            return self.http_method_not_allowed(request)
        self.authorize(f"modify_metadef_{self.kind}")
        metadefs.get_definition(request.context, namespace, self.kind, name)
        item = _plain(validate(request.data, schemas.BODIES[self.kind]))
        return Response(_definition(metadefs.change(request.context, namespace, self.kind, name, item)))

    def delete(self, request: ApiRequest, namespace: str, name: str) -> Response:
        self.authorize(f"delete_metadef_{self.kind}")
        metadefs.remove(request.context, namespace, self.kind, name)
        return Response(status=204)


class ResourceTypes(ImageView):
    """/v2/metadefs/resource_types."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("get_metadef_resource_types")
        return Response({"resource_types": [{"name": name} for name in metadefs.resource_types()]})


def _namespace(row: Namespace) -> dict[str, Any]:
    associations = [item for item in row.definitions.all() if item.kind == "resource_type"]
    return {
        "namespace": row.name,
        "display_name": row.display_name,
        "description": row.description,
        "visibility": row.visibility,
        "protected": row.is_protected,
        "owner": row.project_id,
        "created_at": moment(row.created_at),
        "updated_at": moment(row.updated_at),
        "self": f"{ROOT}/{row.name}",
        "schema": "/v2/schemas/metadefs/namespace",
        **({"resource_type_associations": [_definition(item) for item in associations]} if associations else {}),
    }


def _definition(row: Definition) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": row.name, **row.body}
    if row.kind != "property":
        shown |= {"created_at": moment(row.created_at), "updated_at": moment(row.updated_at)}
    return shown


def _values(given: Any) -> dict[str, Any]:
    return {name: given[name] for name in metadefs.FIELDS if name in given}


def _plain(item: Any) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name not in STAMPS}


def _distinct(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = [item["name"] for item in items]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Invalid(f"Tag {twice[:60]} is named twice.", field="tags")
    return items
