"""Configuration of a domain's identity source: whole, by group, and by option."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Forbidden
from conductor.identity import domain_options
from portal.api.base import ApiRequest
from portal.api.identity.schemas.catalog import DOMAIN_CONFIG, DOMAIN_OPTION
from portal.api.identity.view import IdentityView
from portal.api.validation import validate


class DomainConfig(IdentityView):
    """/v3/domains/{id}/config, …/{group} and …/{group}/{option}."""

    def get(self, request: ApiRequest, domain_id: str, group: str | None = None, option: str | None = None) -> Response:
        self.authorize("identity:get_domain_config")
        return Response({"config": domain_options.show(domain_id, group, option)})

    def patch(
        self, request: ApiRequest, domain_id: str, group: str | None = None, option: str | None = None
    ) -> Response:
        self.authorize("identity:change_domain_config")
        given = validate(request.data, DOMAIN_CONFIG if option is None else DOMAIN_OPTION)["config"]
        changed = domain_options.change(domain_id, _within(given, group, option), group, option)
        return Response({"config": changed})

    def delete(
        self, request: ApiRequest, domain_id: str, group: str | None = None, option: str | None = None
    ) -> Response:
        self.authorize("identity:change_domain_config")
        domain_options.remove(domain_id, group, option)
        return Response(status=204)


class WholeDomainConfig(DomainConfig):
    """/v3/domains/{id}/config: the only path that can replace the configuration."""

    def put(self, request: ApiRequest, domain_id: str) -> Response:
        self.authorize("identity:change_domain_config")
        given = validate(request.data, DOMAIN_CONFIG)["config"]
        is_new = domain_options.replace(domain_id, given)
        return Response({"config": domain_options.show(domain_id)}, status=201 if is_new else 200)


class DefaultConfig(IdentityView):
    """/v3/domains/config/default, …/{group}/default and …/{group}/{option}/default."""

    def get(self, request: ApiRequest, group: str | None = None, option: str | None = None) -> Response:
        self.authorize("identity:get_domain_config")
        return Response({"config": domain_options.default(group, option)})


def _within(given: dict[str, Any], group: str | None, option: str | None) -> domain_options.Config:
    """Return the body as groups of options. Raises Forbidden where it names a group or option other than the path."""
    named = group if option is None else option
    if named is not None and set(given) != {named}:
        raise Forbidden(f"Invalid domain specific configuration: the path asks for {named} and nothing else.")
    return given if option is None or group is None else {group: given}
