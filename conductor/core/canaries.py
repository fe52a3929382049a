"""Names of canaries: servers that try a host before it takes other servers."""

from __future__ import annotations

from uuid import UUID, uuid5

TAG = "canary"


def launch_uuid(run_uuid: UUID) -> UUID:
    """Return the uuid of the workflow that launches the canary of a try.

    The uuid is the same for each call, so only one workflow starts.
    """
    return uuid5(run_uuid, TAG)
