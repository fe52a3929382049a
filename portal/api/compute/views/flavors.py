"""Flavors: the sizes of servers."""

from __future__ import annotations

import re
from collections.abc import Callable

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.core.page import Page
from conductor.services.servers import extra_specs, flavors
from conductor.services.servers.flavors import FlavorQuery
from conductor.services.servers.types import FlavorView
from portal.api.base import ApiRequest
from portal.api.compute.representations import flavors as serializers
from portal.api.compute.schemas import flavors as schemas
from portal.api.compute.view import BARE_SINCE, ComputeView
from portal.api.microversions import since
from portal.api.pagination import fit, next_links, parse_page
from portal.api.validation import as_boolean, validate

NAMES_SINCE = "2.102"  # and from then on answers leave out the rxtx factor, which no driver uses
FACTOR = "rxtx_factor"
IN_LISTS = ("is_public", "minRam", "minDisk", "name", "sort_key", "sort_dir")


class FlavorsView(ComputeView):
    def page(self) -> Page[FlavorView]:
        """Return the page of flavors that the query asks for."""
        self.refuse_unknown_query(IN_LISTS, since=NAMES_SINCE)
        given, knows_names = self.request.query_params, self.request.microversion.covers(NAMES_SINCE)
        page = parse_page(self.request)
        if knows_names and given.get("sort_key") == FACTOR:
            raise Invalid(f"Sort key {FACTOR} ends with version 2.101.", field="sort_key")
        direction = given.get("sort_dir", "asc")
        if direction not in ("asc", "desc"):
            raise Invalid("Invalid input for query parameter sort_dir. It must be asc or desc.", field="sort_dir")
        query = FlavorQuery(
            is_public=self._is_public(given.get("is_public", "true")),
            min_ram_mb=self._amount("minRam"),
            min_disk_gb=self._amount("minDisk"),
            name=given.get("name", "") if knows_names else "",
            sort_key=given.get("sort_key", "flavorid"),
            is_descending=direction == "desc",
            limit=page.limit,
            marker=page.marker,
        )
        return flavors.list_page(self.request.context, query)

    def answer(self, serialize: Callable[[FlavorView, ApiRequest], dict[str, object]]) -> Response:
        found = self.page()
        shown, has_more = fit([serialize(flavor, self.request) for flavor in found.items], has_more=found.has_more)
        last_id = found.items[len(shown) - 1].spec.flavor_id if shown else None
        return Response({"flavors": shown} | next_links(self.request, "flavors", last_id=last_id, has_more=has_more))

    def _is_public(self, text: str) -> bool | None:
        return None if text.lower() == "none" else as_boolean(text, "is_public")

    def _amount(self, name: str) -> int:
        text = self.request.query_params.get(name, "0")
        if not re.fullmatch(r"[0-9]{1,10}", text):
            raise Invalid(f"Invalid {name} filter [{text[:60]}]", field=name)
        return int(text)


class Flavors(FlavorsView):
    def get(self, request: ApiRequest) -> Response:
        return self.answer(serializers.summary)

    def post(self, request: ApiRequest) -> Response:
        body = validate(request.data, schemas.create(request.microversion))
        made = flavors.create(request.context, serializers.new_flavor(body["flavor"]))
        return Response({"flavor": serializers.show(made, request)})


class FlavorsDetail(FlavorsView):
    def get(self, request: ApiRequest) -> Response:
        return self.answer(serializers.show)


class FlavorById(ComputeView):
    bare_since = BARE_SINCE

    def get(self, request: ApiRequest, flavor_id: str) -> Response:
        return Response({"flavor": serializers.show(flavors.get(request.context, flavor_id), request)})

    @since("2.55")
    def put(self, request: ApiRequest, flavor_id: str) -> Response:
        body = validate(request.data, schemas.UPDATE)
        changed = flavors.describe(request.context, flavor_id, body["flavor"]["description"])
        return Response({"flavor": serializers.show(changed, request)})

    def delete(self, request: ApiRequest, flavor_id: str) -> Response:
        flavors.delete(request.context, flavor_id)
        return Response(status=202)


class FlavorAction(ComputeView):
    def post(self, request: ApiRequest, flavor_id: str) -> Response:
        if isinstance(request.data, dict) and "removeTenantAccess" in request.data:
            self.allow("os-flavor-access:remove_tenant_access")
            tenant = validate(request.data, schemas.REMOVE_ACCESS)["removeTenantAccess"]["tenant"]
            return _access(flavor_id, flavors.revoke(request.context, flavor_id, tenant))
        self.allow("os-flavor-access:add_tenant_access")
        tenant = validate(request.data, schemas.ADD_ACCESS)["addTenantAccess"]["tenant"]
        return _access(flavor_id, flavors.grant(request.context, flavor_id, tenant))


class FlavorAccess(ComputeView):
    bare_since = BARE_SINCE

    def get(self, request: ApiRequest, flavor_id: str) -> Response:
        return _access(flavor_id, flavors.access(request.context, flavor_id))


class ExtraSpecsView(ComputeView):
    def check(self, specs: dict[str, str]) -> None:
        """Raises Invalid for an unknown extra spec in a known namespace, or for a value that it cannot have."""
        if self.request.microversion.covers("2.86"):
            extra_specs.check(specs)


class FlavorExtraSpecs(ExtraSpecsView):
    bare_since = BARE_SINCE

    def get(self, request: ApiRequest, flavor_id: str) -> Response:
        return Response({"extra_specs": dict(flavors.get(request.context, flavor_id).spec.extra_specs)})

    def post(self, request: ApiRequest, flavor_id: str) -> Response:
        specs = serializers.texts(validate(request.data, schemas.EXTRA_SPECS)["extra_specs"])
        self.check(specs)
        flavors.set_extra_specs(request.context, flavor_id, specs)
        return Response({"extra_specs": specs})


class FlavorExtraSpec(ExtraSpecsView):
    bare_since = BARE_SINCE

    def get(self, request: ApiRequest, flavor_id: str, key: str) -> Response:
        return Response({key: flavors.extra_spec(request.context, flavor_id, key)})

    def put(self, request: ApiRequest, flavor_id: str, key: str) -> Response:
        spec = serializers.texts(validate(request.data, schemas.EXTRA_SPEC))
        if key not in spec:
            raise Invalid("Request body and URI mismatch", field=key)
        self.check(spec)
        flavors.set_extra_specs(request.context, flavor_id, spec)
        return Response(spec)

    def delete(self, request: ApiRequest, flavor_id: str, key: str) -> Response:
        flavors.remove_extra_spec(request.context, flavor_id, key)
        return Response(status=200)


def _access(flavor_id: str, project_ids: list[str]) -> Response:
    return Response({"flavor_access": [{"flavor_id": flavor_id, "tenant_id": one} for one in project_ids]})
