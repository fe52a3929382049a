"""How a canary is named: the server that tries a host before others come to it."""

from __future__ import annotations

from uuid import UUID, uuid5

TAG = "canary"


def launch_uuid(run_uuid: UUID) -> UUID:
    """The workflow that launches the canary of a try: asking for it twice launches one."""
    return uuid5(run_uuid, TAG)
