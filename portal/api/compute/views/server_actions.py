"""POST /servers/{id}/action: finds the action, checks policy and body, and calls its handler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Conflict, Forbidden, Invalid, NotSupported, QuotaExceeded
from conductor.services.audit import audit
from portal.api.base import ApiRequest
from portal.api.compute.views import actions_moves, actions_network, actions_power, actions_storage, consoles
from portal.api.compute.views.offered import ActionRoute
from portal.api.compute.views.servers import ServerView
from portal.api.microversions import Microversion
from portal.api.schema_parts import Schema, closed
from portal.api.validation import validate

OFFERED: Mapping[str, ActionRoute] = {
    **actions_power.OFFERED,
    **actions_moves.OFFERED,
    **actions_storage.OFFERED,
    **actions_network.OFFERED,
    **consoles.OFFERED,
}

# Errors that the audit log records: a valid request that was refused.
REFUSALS = (Conflict, Forbidden, NotSupported, QuotaExceeded)


@dataclass(frozen=True)
class ApiAction:
    """An action of the Compute API, with the versions that have it."""

    since: str = "2.1"
    until: str | None = None


# All actions of the API besides OFFERED, so that "not offered" differs from "no such action".
_KNOWN: Mapping[str, ApiAction] = {
    **dict.fromkeys(
        (
            "os-start",
            "os-stop",
            "reboot",
            "rebuild",
            "resize",
            "confirmResize",
            "revertResize",
            "createImage",
            "createBackup",
            "os-migrateLive",
            "migrate",
            "evacuate",
            "pause",
            "unpause",
            "suspend",
            "resume",
            "shelve",
            "shelveOffload",
            "unshelve",
            "rescue",
            "unrescue",
            "lock",
            "unlock",
            "changePassword",
            "os-resetState",
            "restore",
            "addSecurityGroup",
            "removeSecurityGroup",
        ),
        ApiAction(),
    ),
    "trigger_crash_dump": ApiAction("2.17"),
    **dict.fromkeys(
        ("addFloatingIp", "removeFloatingIp", "addFixedIp", "removeFixedIp", "resetNetwork", "injectNetworkInfo"),
        ApiAction(until="2.43"),
    ),
}
NOT_OFFERED: Mapping[str, ApiAction] = {name: known for name, known in _KNOWN.items() if name not in OFFERED}

_bodies: dict[tuple[str, int], tuple[Schema, Schema]] = {}


def body_schema(name: str, action: ActionRoute, version: Microversion) -> Schema:
    """Return the schema of the whole body, so that faults name `reboot.type`, not `type`; cached."""
    inner = action.schema_of(version)
    if (name, id(inner)) not in _bodies:
        _bodies[name, id(inner)] = (inner, closed({name: inner}, required=(name,)))  # kept, so that its id stays valid
    return _bodies[name, id(inner)][1]


class ServerAction(ServerView):
    def post(self, request: ApiRequest, server_id: str) -> Response:
        body = request.data
        if not isinstance(body, dict) or len(body) != 1:
            raise Invalid("Malformed request body: it must hold exactly one action.")
        (name,) = body
        action = OFFERED.get(name)
        if action is None or not request.microversion.covers(action.since, action.until):
            return self._refuse(name, server_id)
        try:
            self._allow(action.policy, server_id)
            validate(body, body_schema(name, action, request.microversion))
            return action.call(self, server_id, body[name])
        except REFUSALS as error:
            audit.record_refusal(request.context, name, server_id, error)
            raise

    def _allow(self, policy: str, server_id: str) -> None:
        """Raises Forbidden, or NotFound for a server that the caller may not see."""
        try:
            self.allow(policy)
        except Forbidden:
            self.find(server_id)
            raise

    def _refuse(self, name: Any, server_id: str) -> Response:
        known = NOT_OFFERED.get(name)
        if known is None or not self.request.microversion.covers(known.since, known.until):
            raise Invalid(f"There is no such action: {str(name)[:60]}")
        self.allow("os-admin-actions")
        self.find(server_id)
        raise NotSupported(f"The action {name} is not offered by this cloud yet.")
