"""Policies of other services; and federation, which this cloud does not have."""

from __future__ import annotations

from typing import ClassVar

from rest_framework.response import Response

from conductor.core.errors import Forbidden, NotFound
from conductor.identity import policies
from portal.api.base import ApiRequest
from portal.api.identity.representations import catalog as shown
from portal.api.identity.representations.resources import listing
from portal.api.identity.schemas.catalog import CHANGE_POLICY, CREATE_POLICY
from portal.api.identity.schemas.resources import extra_of
from portal.api.identity.view import IdentityView
from portal.api.identity.views.services import collection
from portal.api.validation import validate


class Policies(IdentityView):
    """/v3/policies."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("identity:list_policies")
        found = policies.find(request.query_params.get("type"))
        return Response(listing(request, "policies", found, shown.policy))

    def post(self, request: ApiRequest) -> Response:
        self.authorize("identity:change_policies")
        given = validate(request.data, CREATE_POLICY)["policy"]
        created = policies.create(given["blob"], given["type"], extra_of(given, CREATE_POLICY, "policy"))
        return Response({"policy": shown.policy(request, created)}, status=201)


class Policy(IdentityView):
    """/v3/policies/{id}."""

    def get(self, request: ApiRequest, policy_id: str) -> Response:
        self.authorize("identity:list_policies")
        return Response({"policy": shown.policy(request, policies.get(policy_id))})

    def patch(self, request: ApiRequest, policy_id: str) -> Response:
        self.authorize("identity:change_policies")
        given = validate(request.data, CHANGE_POLICY)["policy"]
        changes = {name: given[name] for name in ("blob", "type") if name in given}
        extra = extra_of(given, CHANGE_POLICY, "policy")
        changed = policies.change(policy_id, {**changes, "extra": extra} if extra else changes)
        return Response({"policy": shown.policy(request, changed)})

    def delete(self, request: ApiRequest, policy_id: str) -> Response:
        self.authorize("identity:change_policies")
        policies.delete(policy_id)
        return Response(status=204)


class Nothing(IdentityView):
    """A federation collection that this cloud does not have: its list is empty, and creation is refused."""

    name: ClassVar[str] = ""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("identity:list_federation")
        return collection(request, self.name, [])

    def post(self, request: ApiRequest) -> Response:
        self.authorize("identity:change_federation")
        raise Forbidden(f"This cloud knows its own people alone: there are no {self.name.replace('_', ' ')}.")


class NothingById(IdentityView):
    """An item of such a collection: not found."""

    name: ClassVar[str] = ""

    def get(self, request: ApiRequest, ref: str) -> Response:
        self.authorize("identity:list_federation")
        raise NotFound(f"Could not find {self.name}: {ref[:60]}.")

    def put(self, request: ApiRequest, ref: str) -> Response:
        self.authorize("identity:change_federation")
        raise Forbidden(f"This cloud knows its own people alone: no {self.name} can be made.")

    def delete(self, request: ApiRequest, ref: str) -> Response:
        self.authorize("identity:change_federation")
        raise NotFound(f"Could not find {self.name}: {ref[:60]}.")
