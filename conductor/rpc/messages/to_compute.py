"""What a conductor tells a compute agent. Every command carries its key and its fencing token."""

from __future__ import annotations

from typing import Any

from conductor.rpc.codec import message


@message("spawn_instance", version="1.0")
class SpawnInstance:
    """Build and start a guest. `guest` is core.GuestSpec as JSON."""

    step_key: str
    fencing_token: int
    run_uuid: str
    cell: str
    host: str
    instance_uuid: str
    guest: dict[str, Any]


@message("destroy_instance", version="1.0")
class DestroyInstance:
    """End a guest and remove all that it has on the host."""

    step_key: str
    fencing_token: int
    run_uuid: str
    cell: str
    host: str
    instance_uuid: str
