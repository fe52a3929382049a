"""Claim a host for instances, with their places in server groups, and give both back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conductor.api_db.models import InstanceGroupMember
from conductor.core.hardware import wire
from conductor.core.selection import Selection
from conductor.placement import allocations, hardware
from conductor.placement.allocations import Claim
from conductor.transactions import write_tx

ALIAS = "default"


def claim(chosen: Mapping[str, Selection], *, project_id: str, user_id: str) -> None:
    """Claim for each instance uuid its selection, all or none. Raises allocations.ProviderFull or ConsumerHolds."""
    with write_tx(ALIAS):
        allocations.claim_many(
            [
                Claim(uuid, provider, resources, project_id, user_id)
                for uuid, selection in chosen.items()
                for provider, resources in selection.parts.items()
            ]
        )
        for uuid, selection in chosen.items():
            if selection.hardware:
                hardware.claim(uuid, selection.provider_uuid, wire.wanted_from_json(selection.hardware))
        by_host: dict[str, list[str]] = {}
        for uuid, selection in chosen.items():
            by_host.setdefault(selection.host, []).append(uuid)
        if InstanceGroupMember.objects.filter(instance_uuid__in=list(chosen)).exists():
            for host, uuids in by_host.items():
                InstanceGroupMember.objects.filter(instance_uuid__in=uuids).update(host=host)


def release(instance_uuid: str) -> None:
    """Give back what the instance holds. Doing it again changes nothing."""
    release_many([instance_uuid])


def release_many(instance_uuids: Sequence[str]) -> None:
    """Give back what the instances hold, in one transaction."""
    with write_tx(ALIAS):
        allocations.release(instance_uuids)
        InstanceGroupMember.objects.filter(instance_uuid__in=instance_uuids).exclude(host="").update(host="")


def held_selection(instance_uuid: str, choices: Sequence[Selection]) -> Selection | None:
    """The one of `choices` that the instance holds already; None where it holds none of them."""
    held = allocations.held_by(instance_uuid)
    for choice in choices:
        if held == choice.parts:
            return choice
    return None
