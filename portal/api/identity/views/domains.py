"""Domains."""

from __future__ import annotations

from rest_framework.response import Response

from conductor.identity import domains
from portal.api.base import ApiRequest
from portal.api.identity.representations import resources
from portal.api.identity.schemas.resources import CHANGE_DOMAIN, CREATE_DOMAIN, extra_of
from portal.api.identity.view import IdentityView
from portal.api.validation import validate


class Domains(IdentityView):
    """/v3/domains."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("identity:list_domains")
        found, has_more = domains.find(self.question("name", "enabled"))
        return Response(resources.listing(request, "domains", found, resources.domain, has_more=has_more))

    def post(self, request: ApiRequest) -> Response:
        self.authorize("identity:create_domain")
        given = validate(request.data, CREATE_DOMAIN)["domain"]
        fields = domains.fields_of(given, extra_of(given, CREATE_DOMAIN, "domain"))
        created = domains.create(fields.pop("name"), domain_id=given.get("explicit_domain_id"), **fields)
        return Response({"domain": resources.domain(request, created)}, status=201)


class Domain(IdentityView):
    """/v3/domains/{id}."""

    def get(self, request: ApiRequest, domain_id: str) -> Response:
        self.authorize("identity:get_domain", target_domain_id=domain_id)
        return Response({"domain": resources.domain(request, domains.get(domain_id))})

    def patch(self, request: ApiRequest, domain_id: str) -> Response:
        self.authorize("identity:update_domain")
        given = validate(request.data, CHANGE_DOMAIN)["domain"]
        changed = domains.change(domain_id, domains.fields_of(given, extra_of(given, CHANGE_DOMAIN, "domain")))
        return Response({"domain": resources.domain(request, changed)})

    def delete(self, request: ApiRequest, domain_id: str) -> Response:
        self.authorize("identity:delete_domain")
        domains.delete(domain_id)
        return Response(status=204)
