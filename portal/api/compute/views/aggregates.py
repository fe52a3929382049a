"""Host aggregates, some of which are availability zones."""

from __future__ import annotations

import re
from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Invalid, NotSupported
from conductor.services.hosts import aggregates
from conductor.services.hosts.types import AggregateView
from portal.api.base import ApiRequest
from portal.api.compute.representations import aggregates as serializers
from portal.api.compute.schemas import aggregates as schemas
from portal.api.compute.view import BARE_SINCE, ComputeView
from portal.api.validation import validate

NUMBER = re.compile(r"-?[0-9]{1,18}\Z")


class NumberedView(ComputeView):
    """Base of views that address an aggregate by number."""

    def checked(self, ref: str) -> str:
        if not NUMBER.match(ref):
            raise Invalid(f"Invalid input received: {ref[:60]} is not an integer.", field="id")
        return ref

    def answer(self, found: AggregateView) -> Response:
        return Response({"aggregate": serializers.show(found, self.request.microversion)})


class Aggregates(ComputeView):
    bare_since = BARE_SINCE

    def get(self, request: ApiRequest) -> Response:
        found = aggregates.list_all(request.context)
        return Response({"aggregates": [serializers.show(one, request.microversion) for one in found]})

    def post(self, request: ApiRequest) -> Response:
        wanted = validate(request.data, schemas.CREATE)["aggregate"]
        made = aggregates.create(request.context, wanted["name"], wanted.get("availability_zone"))
        return Response({"aggregate": serializers.created(made, request.microversion)})


class AggregateByRef(NumberedView):
    bare_since = BARE_SINCE

    def get(self, request: ApiRequest, ref: str) -> Response:
        return self.answer(aggregates.get(request.context, self.checked(ref)))

    def put(self, request: ApiRequest, ref: str) -> Response:
        wanted = dict(validate(request.data, schemas.UPDATE)["aggregate"])
        name = wanted.pop("name", None)
        return self.answer(aggregates.update(request.context, self.checked(ref), name, wanted))

    def delete(self, request: ApiRequest, ref: str) -> Response:
        aggregates.delete(request.context, self.checked(ref))
        return Response(status=200)


class AggregateImages(NumberedView):
    def post(self, request: ApiRequest, ref: str) -> Response:
        wanted = [one["id"].lower() for one in validate(request.data, schemas.IMAGES)["cache"]]
        if len(set(wanted)) != len(wanted):
            raise Invalid("Duplicate images in request: name each once.", field="cache")
        aggregates.get(request.context, self.checked(ref))
        raise NotSupported("The drivers of this cloud fetch images when servers need them, and not beforehand.")


class AggregateAction(NumberedView):
    """Add a host, remove a host, set metadata: each has a rule of its own."""

    def post(self, request: ApiRequest, ref: str) -> Response:
        name = next(iter(request.data)) if isinstance(request.data, dict) and len(request.data) == 1 else ""
        if name not in schemas.ACTIONS:
            raise Invalid(f"There is no such action: it must be one of {', '.join(schemas.ACTIONS)}.", field="action")
        self.allow(f"os-aggregates:{name}")
        wanted = validate(request.data, schemas.ACTIONS[name])[name]
        return self.answer(self._act(name, self.checked(ref), wanted))

    def _act(self, name: str, ref: str, wanted: dict[str, Any]) -> AggregateView:
        context = self.request.context
        if name == "set_metadata":
            return aggregates.set_metadata(context, ref, wanted["metadata"])
        act = aggregates.add_host if name == "add_host" else aggregates.remove_host
        return act(context, ref, wanted["host"])
