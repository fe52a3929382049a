"""Everyday actions: what turns a server on and off, and what only looks at it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.response import Response

from conductor.services import instances
from portal.api.compute.schemas import servers as schemas
from portal.api.compute.views.offered import Offered
from portal.api.compute.views.servers import ServerView


def console_output(view: ServerView, server_id: str, value: Any) -> Response:
    length = (value or {}).get("length")
    output = instances.console_output(view.request.context, server_id, None if length is None else int(length))
    return Response({"output": output})


def force_delete(view: ServerView, server_id: str, value: Any) -> Response:
    instances.delete(view.request.context, server_id)
    return Response(status=202)


OFFERED: Mapping[str, Offered] = {
    "os-getConsoleOutput": Offered(schema=schemas.CONSOLE_OUTPUT, policy="os-console-output", call=console_output),
    "forceDelete": Offered(policy="os-deferred-delete:force", call=force_delete),
}
