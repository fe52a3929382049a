"""Sub-resources of a server: diagnostics, topology, password, security groups, shares."""

from __future__ import annotations

from rest_framework.response import Response

from conductor.core.errors import NotFound
from conductor.services.consoles import diagnostics
from conductor.services.servers import security_groups
from portal.api.base import ApiRequest
from portal.api.compute.representations import server_facts as shown
from portal.api.compute.schemas.servers import TAG, UUID
from portal.api.compute.view import BARE_SINCE
from portal.api.compute.views.servers import ServerView
from portal.api.schema_parts import wrapped
from portal.api.validation import validate

ATTACH_SHARE = wrapped("share", {"share_id": UUID, "tag": TAG}, required=("share_id",))

FIXED_FORM_SINCE = "2.48"


class ServerDiagnostics(ServerView):
    """/servers/{id}/diagnostics."""

    bare_since = BARE_SINCE

    def get(self, request: ApiRequest, server_id: str) -> Response:
        self.allow("os-server-diagnostics")
        found = diagnostics.diagnostics(request.context, server_id)
        form = shown.fixed_form if request.microversion.covers(FIXED_FORM_SINCE) else shown.free_form
        return Response(form(found))


class ServerTopology(ServerView):
    """/servers/{id}/topology."""

    bare_since = BARE_SINCE

    min_microversion = "2.78"

    def get(self, request: ApiRequest, server_id: str) -> Response:
        self.allow("compute:server:topology:index")
        with_host = self.allows("compute:server:topology:host:index")
        return Response(shown.topology(diagnostics.topology(request.context, server_id), with_host=with_host))


class ServerPassword(ServerView):
    """/servers/{id}/os-server-password: the password that the guest has posted, encrypted for its owner."""

    bare_since = BARE_SINCE

    def get(self, request: ApiRequest, server_id: str) -> Response:
        self.allow("os-server-password:show")
        return Response({"password": diagnostics.password(request.context, server_id)})

    def delete(self, request: ApiRequest, server_id: str) -> Response:
        self.allow("os-server-password:clear")
        diagnostics.forget_password(request.context, server_id)
        return Response(status=204)


class ServerSecurityGroups(ServerView):
    """/servers/{id}/os-security-groups: the groups of its ports, with their rules."""

    bare_since = BARE_SINCE

    def get(self, request: ApiRequest, server_id: str) -> Response:
        self.allow("os-security-groups:list")
        found = security_groups.list_of(request.context, server_id)
        return Response({"security_groups": [shown.security_group(group) for group in found]})


class ServerShares(ServerView):
    """/servers/{id}/shares: always empty, as this cloud has no service for shares."""

    min_microversion = "2.97"

    def get(self, request: ApiRequest, server_id: str) -> Response:
        self.allow("os-server-shares:index")
        self.find(server_id)
        return Response({"shares": []})

    def post(self, request: ApiRequest, server_id: str) -> Response:
        self.allow("os-server-shares:create")
        share_id = validate(request.data, ATTACH_SHARE)["share"]["share_id"]
        self.find(server_id)
        raise NotFound(f"Share {share_id} could not be found.")


class ServerShare(ServerView):
    """/servers/{id}/shares/{share}."""

    min_microversion = "2.97"

    def get(self, request: ApiRequest, server_id: str, share_id: str) -> Response:
        self.allow("os-server-shares:show")
        self.find(server_id)
        raise NotFound(f"Share {share_id[:60]} could not be found.")

    def delete(self, request: ApiRequest, server_id: str, share_id: str) -> Response:
        self.allow("os-server-shares:delete")
        self.find(server_id)
        raise NotFound(f"Share {share_id[:60]} could not be found.")
