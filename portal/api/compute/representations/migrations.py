"""JSON of migrations, per microversion."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request

from conductor.services.server_migrations.migrations import MigrationView
from portal.api.compute.representations import parts
from portal.api.microversions import Microversion

UUID_SINCE = "2.59"
OWNERS_SINCE = "2.80"
KINDS_SINCE = "2.23"


def show(request: Request, move: MigrationView, version: Microversion, *, has_hosts: bool = True) -> dict[str, Any]:
    """Return a migration in the list of all; only administrators see its hosts."""
    shown: dict[str, Any] = {
        "id": move.number,
        **_ends(move, has_hosts=has_hosts),
        "instance_uuid": move.instance_uuid,
        "status": move.status,
        "old_instance_type_id": move.old_flavor_number,
        "new_instance_type_id": move.new_flavor_number,
        **_times(move),
    }
    if version.covers(KINDS_SINCE):
        shown["migration_type"] = move.migration_type
        if move.is_live_and_under_way:
            shown["links"] = parts.links(request, "servers", move.instance_uuid, "migrations", str(move.number))
    return shown | _versioned(move, version)


def of_server(move: MigrationView, version: Microversion, *, has_hosts: bool = True) -> dict[str, Any]:
    """Return a server's ongoing live migration, with its progress."""
    amounts = {f"{name}_bytes": amount for name, amount in move.amounts.items()}
    return {
        "id": move.number,
        **_ends(move, has_hosts=has_hosts),
        "server_uuid": move.instance_uuid,
        "status": move.status,
        **amounts,
        **_times(move),
        **_versioned(move, version),
    }


def _ends(move: MigrationView, *, has_hosts: bool) -> dict[str, Any]:
    ends = {
        "source_compute": move.source_host,
        "source_node": move.source_node,
        "dest_compute": move.destination_host,
        "dest_node": move.destination_node,
        "dest_host": move.destination_ip or None,
    }
    return ends if has_hosts else dict.fromkeys(ends)


def _times(move: MigrationView) -> dict[str, Any]:
    return {"created_at": parts.to_the_digit(move.created_at), "updated_at": parts.to_the_digit(move.updated_at)}


def _versioned(move: MigrationView, version: Microversion) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    if version.covers(UUID_SINCE):
        shown["uuid"] = move.uuid
    if version.covers(OWNERS_SINCE):
        shown |= {"user_id": move.user_id, "project_id": move.project_id}
    return shown
