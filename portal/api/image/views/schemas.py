"""Schemas, stores, usage and import methods of the image API."""

from __future__ import annotations

from rest_framework.response import Response

from conductor.core.errors import NotFound
from conductor.services.quotas import image_quotas
from portal.api.base import ApiRequest
from portal.api.image.representations.images import STORE
from portal.api.image.schemas import metadefs
from portal.api.image.schemas.images import DOCUMENTS, TASK_DOCUMENTS
from portal.api.image.view import ImageView
from portal.api.image.views.images import METHOD


class SchemaDocument(ImageView):
    """/v2/schemas/{name}."""

    def get(self, request: ApiRequest, name: str) -> Response:
        self.authorize("get_schema")
        known = DOCUMENTS | TASK_DOCUMENTS
        if name not in known:
            raise NotFound(f"There is no schema named {name[:60]}.")
        return Response(known[name])


class CatalogSchemaDocument(ImageView):
    """/v2/schemas/metadefs/{name}."""

    def get(self, request: ApiRequest, name: str) -> Response:
        self.authorize("get_schema")
        if name not in metadefs.DOCUMENTS:
            raise NotFound(f"There is no schema named metadefs/{name[:60]}.")
        return Response(metadefs.DOCUMENTS[name])


class Stores(ImageView):
    """/v2/info/stores: the only one."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("get_images")
        return Response({"stores": [{"id": STORE, "description": "Files of this cloud", "default": "true"}]})


class Usage(ImageView):
    """/v2/info/usage: limits and usage of the project; -1 is no limit."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("get_images")
        found = image_quotas.show(request.context.project_id)
        return Response({"usage": {one.resource: {"limit": one.limit, "usage": one.in_use} for one in found}})


class ImportInfo(ImageView):
    """/v2/info/import: data are staged first, or uploaded directly without import."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("get_schema")
        methods = {"description": "Import methods available.", "type": "array", "value": [METHOD]}
        return Response({"import-methods": methods})
