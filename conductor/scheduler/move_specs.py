"""What an instance that exists already asks of a new host: as it was asked for once, in its size and image of now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.conf import settings

from conductor.api_db.models import RequestSpecRecord
from conductor.cell_db.models import ComputeNode, Instance, Migration
from conductor.core.request_spec import FlavorSpec, ImageSpec, MoveSpec, RequestSpec
from conductor.core.states import MigrationType
from conductor.placement import allocations

# What the destination's driver must be able to do for each kind of move.
CAPABILITIES: Mapping[str, str] = {
    MigrationType.RESIZE: "migrate",
    MigrationType.MIGRATION: "migrate",
    MigrationType.LIVE_MIGRATION: "live_migrate",
}
SHARED_DISKS = "evacuate"  # the capability of drivers whose hosts share their guests' disks


def of(instance: Instance, migration: Migration, *, requested_host: str, tried_hosts: Sequence[str]) -> RequestSpec:
    """The scheduler's question for one move. Nothing of it outlives the attempt: what was asked for stays as it is."""
    alias = str(instance._state.db)
    node = ComputeNode.objects.using(alias).filter(host=migration.source_host, node=migration.source_node).first()
    may_stay = migration.migration_type == MigrationType.RESIZE and settings.NOVELLA_ALLOW_RESIZE_TO_SAME_HOST
    source = str(node.uuid) if node else ""
    held = migration.details.get("held", {})
    return replace(
        asked(instance),
        flavor=FlavorSpec(**(migration.new_flavor or instance.flavor)),
        ignore_hosts=(*(() if may_stay else (migration.source_host,)), *tried_hosts),
        requested_host=requested_host,
        move=MoveSpec(
            cell=alias,
            migration_uuid=str(migration.uuid),
            hypervisor_type=node.hypervisor_type if node else "",
            capability=_capability(migration.migration_type, node),
            source_provider_uuid=source,
            **_given_back(held, source if may_stay else ""),
        ),
    )


def supposed(instance: Instance, migration_type: str, *, flavor: FlavorSpec | None = None) -> RequestSpec:
    """What a move would ask that nobody has begun: as `of`, with what the instance holds now."""
    alias = str(instance._state.db)
    node = ComputeNode.objects.using(alias).filter(host=instance.host, node=instance.node).first()
    may_stay = migration_type == MigrationType.RESIZE and settings.NOVELLA_ALLOW_RESIZE_TO_SAME_HOST
    source = str(node.uuid) if node else ""
    held = allocations.held_by(instance.uuid) if may_stay else {}
    spec = asked(instance)
    return replace(
        spec,
        flavor=flavor or spec.flavor,
        ignore_hosts=() if may_stay else (instance.host or "",),
        move=MoveSpec(
            cell=alias,
            migration_uuid="",
            hypervisor_type=node.hypervisor_type if node else "",
            capability=_capability(migration_type, node),
            source_provider_uuid=source,
            **_given_back(held, source),
        ),
    )


def leaves_disks(alias: str, migration: Migration) -> bool:
    """Whether other hosts see the disks of a dead host's guest."""
    node = ComputeNode.objects.using(alias).filter(host=migration.source_host, node=migration.source_node).first()
    return _capability(migration.migration_type, node) == SHARED_DISKS


def asked(instance: Instance) -> RequestSpec:
    """What was asked for when the instance was launched, with the image that it has by now."""
    row = RequestSpecRecord.objects.filter(instance_uuid=instance.uuid).first()
    image, flavor = ImageSpec(**instance.image), FlavorSpec(**instance.flavor)
    if row is not None:
        return replace(  # a host that was named was meant for the launch
            RequestSpec.from_json(row.spec),
            num_instances=1,
            flavor=flavor,
            image=image,
            requested_host="",
            force_hosts=(),
        )
    return RequestSpec(
        project_id=instance.project_id,
        user_id=instance.user_id,
        flavor=flavor,
        image=image,
        availability_zone=instance.pinned_availability_zone,
        scheduler_hints=instance.scheduler_hints,
    )


def _capability(migration_type: str, node: ComputeNode | None) -> str:
    """Any host builds a dead host's guest anew from its image; from disks that are shared, only one that sees them."""
    if migration_type != MigrationType.EVACUATION:
        return CAPABILITIES[migration_type]
    actions = node.report.get("capabilities", {}).get("actions", ()) if node else ()
    return SHARED_DISKS if SHARED_DISKS in actions else ""


def _given_back(held: Mapping[str, Mapping[str, int]], source: str) -> dict[str, Any]:
    """What the instance would give back at its host; nothing where it may not stay there."""
    if not source or not held:
        return {}
    is_one = held.keys() <= {source}
    return {"gives_back": held.get(source, {}), "gives_back_by_provider": {} if is_one else held}
