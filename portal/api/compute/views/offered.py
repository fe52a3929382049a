"""Route of an action in POST /servers/{id}/action; each `actions_*.py` has a table of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rest_framework.response import Response

from portal.api.compute.views.servers import ServerView
from portal.api.links import absolute
from portal.api.microversions import Microversion
from portal.api.schema_parts import Schema

# Takes the server's id and the action's validated value; returns the response.
Call = Callable[[ServerView, str, Any], Response]

NOTHING: Schema = {"type": ["null", "object", "string"], "maxProperties": 0, "maxLength": 0}  # {"os-start": null}


@dataclass(frozen=True, kw_only=True)
class ActionRoute:
    """An action: its policy rule, the schema of its value, and its handler.

    `schema` may depend on the microversion. Return the same object for a version, not a new one per call.
    """

    policy: str
    call: Call
    schema: Schema | Callable[[Microversion], Schema] = field(default_factory=lambda: NOTHING)
    since: str = "2.1"
    until: str | None = None

    def schema_of(self, version: Microversion) -> Schema:
        return self.schema(version) if callable(self.schema) else self.schema


def accepted(view: ServerView, run_uuid: str, body: Any = None) -> Response:
    """202, with a link to the workflow that carries out the action."""
    response = Response(body, status=202)
    response["Link"] = f'<{absolute(view.request, f"/api/workflows/{run_uuid}")}>; rel="monitor"'
    return response
