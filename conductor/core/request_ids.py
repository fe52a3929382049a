"""A request's id: in every answer, in the log and in the history of actions."""

from __future__ import annotations

import uuid

HEADER = "x-openstack-request-id"


def new_request_id() -> str:
    """`req-<uuid>`: the key of an action's history, and what people quote when they ask for help."""
    return f"req-{uuid.uuid4()}"
