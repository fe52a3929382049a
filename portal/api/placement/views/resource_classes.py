"""/resource_classes: only custom ones can be created, renamed and deleted."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from conductor.placement import resource_classes
from portal.api.base import ApiRequest
from portal.api.microversions import since
from portal.api.placement.schemas.providers import RESOURCE_CLASS
from portal.api.placement.view import ROOT, PlacementView, fitting


def _show(name: str) -> dict[str, Any]:
    return {"name": name, "links": [{"rel": "self", "href": f"{ROOT}/resource_classes/{name}"}]}


class ResourceClasses(PlacementView):
    """/resource_classes."""

    @since("1.2")
    def get(self, request: ApiRequest) -> Response:
        self.allow("resource_classes:list")
        self.readable()
        return self.answer({"resource_classes": [_show(name) for name in resource_classes.names()]})

    @since("1.2")
    def post(self, request: ApiRequest) -> Response:
        self.allow("resource_classes:create")
        self.json_only()
        name = self.body(RESOURCE_CLASS)["name"]
        resource_classes.create(name)
        return self.done(status=201, location=f"/resource_classes/{name}")


class ResourceClass(PlacementView):
    """/resource_classes/{name}."""

    @since("1.2")
    def get(self, request: ApiRequest, name: str) -> Response:
        self.allow("resource_classes:show")
        self.readable()
        return self.answer(_show(resource_classes.get(name)))

    @since("1.2")
    def put(self, request: ApiRequest, name: str) -> Response:
        """Before 1.7, rename the class; from then on, create it if it is missing."""
        self.allow("resource_classes:update")
        if not self.covers("1.7"):
            return self._rename(name)
        fitting({"name": name}, RESOURCE_CLASS, "JSON does not validate")
        is_new = resource_classes.ensure(name)
        return self.done(status=201 if is_new else 204, location=f"/resource_classes/{name}")

    def _rename(self, name: str) -> Response:
        self.json_only()
        wanted = self.body(RESOURCE_CLASS)["name"]
        resource_classes.rename(name, wanted)
        return self.answer(_show(wanted))

    @since("1.2")
    def delete(self, request: ApiRequest, name: str) -> Response:
        self.allow("resource_classes:delete")
        resource_classes.delete(name)
        return self.done()
