"""Key pairs of users."""

from __future__ import annotations

from rest_framework.response import Response

from conductor.services.servers import keypairs
from portal.api.base import ApiRequest
from portal.api.compute.representations import keypairs as serializers
from portal.api.compute.schemas import keypairs as schemas
from portal.api.compute.view import ComputeView
from portal.api.idempotency import idempotent
from portal.api.pagination import next_links, parse_page
from portal.api.validation import validate


class KeyPairsView(ComputeView):
    def user_id(self, rule: str) -> str:
        """Return the owner of the keys: the caller, or from 2.10 on the user that the request names."""
        self.refuse_unknown_query(("user_id",))
        named = self.request.query_params.get("user_id") if self.request.microversion.covers("2.10") else None
        self.allow(rule, target_user_id=named)
        return named or self.request.context.user_id


class KeyPairs(KeyPairsView):
    def get(self, request: ApiRequest) -> Response:
        user_id = self.user_id("os-keypairs:index")
        is_paged = request.microversion.covers("2.35")
        page = parse_page(request)
        if is_paged:
            found = keypairs.list_page(request.context, user_id, limit=page.limit, marker=page.marker)
        else:
            found = keypairs.list_page(request.context, user_id)
        shown = [{"keypair": serializers.summary(key, request.microversion)} for key in found.items]
        last = found.items[-1].name if found.items else None
        links = next_links(request, "keypairs", last_id=last, has_more=found.has_more) if is_paged else {}
        return Response({"keypairs": shown, **links})

    @idempotent(is_one_commit=True)
    def post(self, request: ApiRequest) -> Response:
        wanted = validate(request.data, schemas.create(request.microversion))["keypair"]
        user_id = wanted.get("user_id", request.context.user_id)
        self.allow("os-keypairs:create", target_user_id=user_id)
        name, kind = wanted["name"], wanted.get("type", keypairs.SSH)
        if wanted.get("public_key"):
            made = keypairs.import_key(request.context, user_id, name, wanted["public_key"], kind)
        else:
            made = keypairs.generate(request.context, user_id, name, kind)
        status = 201 if request.microversion.covers("2.2") else 200
        return Response({"keypair": serializers.created(made, request.microversion)}, status=status)


class KeyPairByName(KeyPairsView):
    def get(self, request: ApiRequest, name: str) -> Response:
        user_id = self.user_id("os-keypairs:show")
        found = keypairs.get(request.context, user_id, name)
        return Response({"keypair": serializers.show(found, request.microversion)})

    def delete(self, request: ApiRequest, name: str) -> Response:
        keypairs.delete(request.context, self.user_id("os-keypairs:delete"), name)
        return Response(status=204 if request.microversion.covers("2.2") else 202)
