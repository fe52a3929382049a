"""POST /servers/{id}/action: what is built, and an honest answer for what is not yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Invalid, NotSupported
from conductor.services import instances
from portal.api.base import ApiRequest
from portal.api.compute.schemas import servers as schemas
from portal.api.compute.views.servers import ServerView
from portal.api.validation import validate


@dataclass(frozen=True)
class Known:
    """An action that the Compute API has between two versions."""

    since: str = "2.1"
    until: str | None = None


# All that clients may send, so that "not offered" can be told from "no such thing".
NOT_OFFERED: Mapping[str, Known] = {
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
        Known(),
    ),
    "trigger_crash_dump": Known("2.17"),
    **dict.fromkeys(
        ("os-getVNCConsole", "os-getSPICEConsole", "os-getRDPConsole", "os-getSerialConsole"), Known(until="2.5")
    ),
    **dict.fromkeys(
        ("addFloatingIp", "removeFloatingIp", "addFixedIp", "removeFixedIp", "resetNetwork", "injectNetworkInfo"),
        Known(until="2.43"),
    ),
}


class ServerAction(ServerView):
    def post(self, request: ApiRequest, server_id: str) -> Response:
        body = request.data
        if not isinstance(body, dict) or len(body) != 1:
            raise Invalid("Malformed request body: it must hold exactly one action.")
        ((name, value),) = body.items()
        if name in OFFERED:
            return OFFERED[name](self, server_id, value)
        known = NOT_OFFERED.get(name)
        if known is None or not request.microversion.covers(known.since, known.until):
            raise Invalid(f"There is no such action: {name[:60]}")
        self.allow("os-admin-actions")
        self.find(server_id)
        raise NotSupported(f"The action {name} is not offered by this cloud yet.")

    def console_output(self, server_id: str, value: Any) -> Response:
        self.allow("os-console-output")
        options = validate(value, schemas.CONSOLE_OUTPUT) or {}
        length = options.get("length")
        output = instances.console_output(self.request.context, server_id, None if length is None else int(length))
        return Response({"output": output})

    def force_delete(self, server_id: str, value: Any) -> Response:
        self.allow("servers:delete")
        instances.delete(self.request.context, server_id)
        return Response(status=202)


OFFERED: Mapping[str, Callable[[ServerAction, str, Any], Response]] = {
    "os-getConsoleOutput": ServerAction.console_output,
    "forceDelete": ServerAction.force_delete,
}
