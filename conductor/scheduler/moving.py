"""What an instance that moves holds: at its source under its migration's uuid, at its destination under its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

from django.db.models import Q

from conductor.api_db.models import InstanceGroupMember
from conductor.core.host_state import HostState, HostTable
from conductor.core.request_spec import MoveSpec
from conductor.core.scheduling.host_trees import with_taken
from conductor.core.selection import Selection
from conductor.placement import allocations, hardware
from conductor.placement.allocations import Claim
from conductor.transactions import write_tx

ALIAS = "default"
Held = Mapping[str, Mapping[str, int]]  # amounts by resource class, by provider uuid


def with_room_given_back(hosts: HostTable, move: MoveSpec | None) -> HostTable:
    """The hosts as they are without the instance that moves: on its own host it counts on what it holds there."""
    if move is None or not (move.gives_back or move.gives_back_by_provider):
        return hosts
    for row, state in enumerate(hosts.states):
        if state.provider_uuid == move.source_provider_uuid:
            freed = replace(_freed(state, move), num_instances=state.num_instances - 1)
            return hosts.with_rows({row: freed}, age_seconds=hosts.age_seconds)
    return hosts


def _freed(state: HostState, move: MoveSpec) -> HostState:
    if state.tree:
        held = move.gives_back_by_provider or {state.provider_uuid: move.gives_back}
        return with_taken(state, held, -1)
    return replace(
        state,
        vcpus_used=state.vcpus_used - move.gives_back.get("VCPU", 0),
        memory_mb_used=state.memory_mb_used - move.gives_back.get("MEMORY_MB", 0),
        disk_gb_used=state.disk_gb_used - move.gives_back.get("DISK_GB", 0),
        amounts={
            name: replace(amount, used=amount.used - move.gives_back.get(name, 0))
            for name, amount in state.amounts.items()
        },
    )


def step_aside(instance_uuid: UUID | str, migration_uuid: UUID | str, chosen: Selection) -> None:
    """Before the claim at the destination: what the instance holds goes to the migration.

    Where the destination is the very host, only what the claim does not cover is kept: the sum is the larger of both
    sizes, which is what either of them needs.
    """
    with write_tx(ALIAS):
        if not allocations.move(instance_uuid, migration_uuid, allocations.MIGRATION):
            return
        for provider in allocations.held_by(migration_uuid).keys() & chosen.parts.keys():
            allocations.shrink(migration_uuid, provider, chosen.parts[provider])
        members = InstanceGroupMember.objects.filter(instance_uuid=instance_uuid)
        for member in members.select_for_update():
            members.update(leaving_host=member.host)


def step_back(instance_uuid: UUID | str, migration_uuid: UUID | str, *, held: Held, owner: tuple[str, str]) -> None:
    """The instance holds again what it held before the move, and nothing else; `owner` is its project and user.

    Where nothing was moved, or it is back already, nothing changes.
    """
    with write_tx(ALIAS):
        if not allocations.is_there(migration_uuid):
            return
        allocations.release([instance_uuid])
        if allocations.held_by(migration_uuid) == held:
            allocations.move(migration_uuid, instance_uuid)
        else:  # it was shrunk beside the claim that has just gone: there is room for all of it again
            inside = hardware.held_by(migration_uuid)
            allocations.release([migration_uuid])
            project_id, user_id = owner
            allocations.claim_many(
                [
                    Claim(str(instance_uuid), provider, amounts, project_id, user_id)
                    for provider, amounts in held.items()
                ]
            )
            hardware.restore(instance_uuid, inside)
        members = InstanceGroupMember.objects.filter(instance_uuid=instance_uuid).exclude(leaving_host="")
        for member in members.select_for_update():
            members.update(host=member.leaving_host, leaving_host="")


def settle(instance_uuid: UUID | str, migration_uuid: UUID | str) -> None:
    """The instance stays where it is now: what the migration held at the source is free."""
    with write_tx(ALIAS):
        allocations.release([migration_uuid])
        members = InstanceGroupMember.objects.filter(~Q(leaving_host=""), instance_uuid=instance_uuid)
        if members.exists():
            members.update(leaving_host="")
