"""What clients may ask about the API itself."""

from __future__ import annotations

from rest_framework.response import Response

from conductor.core.errors import NotFound
from portal.api.base import ApiRequest
from portal.api.image.schemas.images import DOCUMENTS
from portal.api.image.view import ImageView


class SchemaDocument(ImageView):
    """/v2/schemas/{name}."""

    def get(self, request: ApiRequest, name: str) -> Response:
        self.authorize("get_schema")
        if name not in DOCUMENTS:
            raise NotFound(f"There is no schema named {name}.")
        return Response(DOCUMENTS[name])


class ImportInfo(ImageView):
    """/v2/info/import: data come by upload alone."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("get_schema")
        methods = {"description": "Import methods available.", "type": "array", "value": []}
        return Response({"import-methods": methods})
