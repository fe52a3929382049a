"""What an action of POST /servers/{id}/action is made of; each `actions_*.py` has a table of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rest_framework.response import Response

from portal.api.compute.views.servers import ServerView
from portal.api.links import absolute
from portal.api.microversions import Microversion
from portal.api.schema_parts import Schema

# A server's id and the value beside the action's name, which fits the schema; answers the request.
Call = Callable[[ServerView, str, Any], Response]

NOTHING: Schema = {"type": ["null", "object", "string"], "maxProperties": 0, "maxLength": 0}  # {"os-start": null}


@dataclass(frozen=True, kw_only=True)
class Offered:
    """One action: who may (a row of policies.py), what its value looks like, and what is called.

    `schema` may depend on the version that is spoken. Give one object per version, not a new one per call.
    """

    policy: str
    call: Call
    schema: Schema | Callable[[Microversion], Schema] = field(default_factory=lambda: NOTHING)
    since: str = "2.1"
    until: str | None = None

    def schema_of(self, version: Microversion) -> Schema:
        return self.schema(version) if callable(self.schema) else self.schema


def accepted(view: ServerView, run_uuid: str, body: Any = None) -> Response:
    """202, with a link to the workflow that does it."""
    response = Response(body, status=202)
    response["Link"] = f'<{absolute(view.request, f"/api/workflows/{run_uuid}")}>; rel="monitor"'
    return response
