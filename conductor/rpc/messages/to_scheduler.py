"""Calls of a conductor to a scheduler that is its own service. The replies are in `to_conductor`."""

from __future__ import annotations

from typing import Any

from conductor.rpc.codec import message


@message("select_destinations", version="1.0")
class DestinationsRequested:
    """A step's request to decide about its instances, and to claim the chosen hosts. `spec` is core.RequestSpec as
    JSON.

    A repeated call has the same `step_key`. Claims and decision are written only while `fencing_token` is the newest of
    the run, which is in the journal `cell` under `run_id`.
    """

    scheduler: str
    cell: str
    run_id: int
    run_uuid: str
    step_key: str
    fencing_token: int
    instance_uuids: list[str]
    spec: dict[str, Any]
