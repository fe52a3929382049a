"""Remote consoles: one-time links, and the lookup of a token by console proxies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.response import Response

from conductor.core.consoles import ConsoleKind
from conductor.core.errors import Invalid, NotAuthenticated, NotSupported
from conductor.services.consoles import consoles
from portal.api.base import ApiRequest
from portal.api.compute.schemas import consoles as schemas
from portal.api.compute.view import ComputeView
from portal.api.compute.views.offered import ActionRoute
from portal.api.compute.views.servers import ServerView
from portal.api.links import console_url
from portal.api.validation import validate

POLICY = "os-remote-consoles"
SHOWS_ALL_SINCE, SHOWS_TLS_SINCE = "2.31", "2.99"
# By protocol and type. All other types belong to hypervisors or viewers that this cloud does not have.
KINDS: Mapping[tuple[str, str], ConsoleKind] = {
    ("vnc", "novnc"): ConsoleKind.VNC,
    ("serial", "serial"): ConsoleKind.SERIAL,
}
PROTOCOL_OF: Mapping[str, str] = {
    "os-getVNCConsole": "vnc",
    "os-getSPICEConsole": "spice",
    "os-getRDPConsole": "rdp",
    "os-getSerialConsole": "serial",
}


def link(view: ServerView, server_id: str, protocol: str, console_type: str) -> dict[str, str]:
    """Return `type` and `url` of a new console. Raises Invalid for a type that the server's host does not have."""
    view.find(server_id)
    kind = KINDS.get((protocol, console_type))
    try:
        if kind is None:
            raise NotSupported
        ticket = consoles.grant(view.request.context, server_id, kind)
    except NotSupported:
        known = ", ".join(sorted(offered for _, offered in KINDS))
        raise Invalid(f"Unavailable console type {console_type}. It may be one of: {known}.", field="type") from None
    return {"type": console_type, "url": console_url(view.request, ticket)}


class RemoteConsoles(ServerView):
    """/servers/{id}/remote-consoles."""

    min_microversion = "2.6"

    def post(self, request: ApiRequest, server_id: str) -> Response:
        self.allow(POLICY)
        wanted = validate(request.data, schemas.remote_console(request.microversion))["remote_console"]
        made = link(self, server_id, wanted["protocol"], wanted["type"])
        return Response({"remote_console": {"protocol": wanted["protocol"], **made}})


class ConsoleAuthToken(ComputeView):
    """/os-console-auth-tokens/{token}."""

    def get(self, request: ApiRequest, token: str) -> Response:
        if not request.microversion.covers(SHOWS_ALL_SINCE):  # before: only types that are not here
            raise NotAuthenticated("The requested console type details are not accessible.")
        ticket, endpoint, _ = consoles.show(token)
        shown: dict[str, Any] = {
            "instance_uuid": ticket.instance_uuid,
            "host": endpoint.address,
            "port": endpoint.port,
            "internal_access_path": None,
        }
        if request.microversion.covers(SHOWS_TLS_SINCE):
            shown["tls_port"] = endpoint.port
        return Response({"console": shown})


def _action(name: str) -> ActionRoute:
    def call(view: ServerView, server_id: str, value: Any) -> Response:
        return Response({"console": link(view, server_id, PROTOCOL_OF[name], value["type"])})

    return ActionRoute(policy=POLICY, call=call, schema=schemas.ACTIONS[name], until="2.5")


OFFERED: Mapping[str, ActionRoute] = {name: _action(name) for name in PROTOCOL_OF}
