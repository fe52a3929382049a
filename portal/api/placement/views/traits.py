"""/traits, and the traits of a provider. Only custom ones can be created and deleted."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.placement import providers, traits
from portal.api.base import ApiRequest
from portal.api.microversions import since
from portal.api.placement.known import refuse_unknown_traits
from portal.api.placement.schemas.providers import CUSTOM_TRAIT, LIST_TRAITS, SET_TRAITS
from portal.api.placement.uuids import provider_uuid
from portal.api.placement.view import PlacementView, fitting

_WORDS = {"true": True, "false": False}


class Traits(PlacementView):
    """/traits."""

    @since("1.6")
    def get(self, request: ApiRequest) -> Response:
        self.allow("traits:list")
        self.readable()
        given = self.query(LIST_TRAITS)
        filters = _by_name(given["name"]) if "name" in given else {}
        if "associated" in given:
            filters["is_associated"] = _is_associated(given["associated"])
        return self.answer({"traits": traits.names(**filters)})


def _by_name(text: str) -> dict[str, Any]:
    """`in:A,B` or `startswith:A`."""
    kind, colon, value = text.partition(":")
    if not colon:
        raise Invalid(
            f"name: expected in:NAME,NAME or startswith:PREFIX as the query string parameter. Got: {text[:80]}.",
            field="name",
        )
    if kind == "in":
        return {"among": value.split(",")}
    return {"prefix": value} if kind == "startswith" else {}


def _is_associated(text: str) -> bool:
    word = _WORDS.get(text.lower())
    if word is None:
        raise Invalid(f"associated: expected true or false. Got: {text[:80]}.", field="associated")
    return word


class Trait(PlacementView):
    """/traits/{name}."""

    @since("1.6")
    def get(self, request: ApiRequest, name: str) -> Response:
        self.allow("traits:show")
        traits.get(name)
        return self.answer(None, status=204)

    @since("1.6")
    def put(self, request: ApiRequest, name: str) -> Response:
        self.allow("traits:update")
        fitting(name, CUSTOM_TRAIT, "The name of a trait begins with CUSTOM_ and has at most 255 of A-Z, 0-9 and _")
        is_new = traits.ensure(name)
        return self.answer(None, status=201 if is_new else 204, location=f"/traits/{name}")

    @since("1.6")
    def delete(self, request: ApiRequest, name: str) -> Response:
        self.allow("traits:delete")
        traits.delete(name)
        return self.done()


class ProviderTraits(PlacementView):
    """/resource_providers/{uuid}/traits."""

    @since("1.6")
    def get(self, request: ApiRequest, uuid: str) -> Response:
        self.allow("resource_providers:traits:list")
        self.readable()
        generation, names = traits.of_provider(provider_uuid(uuid))
        return self._show(generation, names)

    @since("1.6")
    def put(self, request: ApiRequest, uuid: str) -> Response:
        self.allow("resource_providers:traits:update")
        self.json_only()
        body = self.body(SET_TRAITS)
        provider = providers.view(provider_uuid(uuid))
        refuse_unknown_traits(body["traits"], "traits")
        generation, names = traits.set_of_provider(provider.uuid, body["traits"], body["resource_provider_generation"])
        return self._show(generation, names)

    @since("1.6")
    def delete(self, request: ApiRequest, uuid: str) -> Response:
        self.allow("resource_providers:traits:delete")
        traits.set_of_provider(provider_uuid(uuid), [], None)
        return self.done()

    def _show(self, generation: int, names: Any) -> Response:
        return self.answer({"traits": sorted(names), "resource_provider_generation": generation})
