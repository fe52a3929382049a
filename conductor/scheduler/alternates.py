"""After a build failed on its host: claim the next alternate, and note what became of each."""

from __future__ import annotations

from collections.abc import Sequence

from conductor.api_db.models import InstanceGroup, InstanceGroupMember
from conductor.core.scheduling.group_rules import may_join
from conductor.core.selection import Selection
from conductor.placement.allocations import ProviderFull
from conductor.scheduler import allocation_claims, cell_facts, decision_log, request_completion
from conductor.scheduler.decision_log import CLAIM_FAILED, NOT_OPEN, USED
from conductor.transactions import write_tx

ALIAS = "default"


def claim_alternate(
    instance_uuid: str, *, project_id: str, user_id: str, alternates: Sequence[Selection]
) -> Selection | None:
    """Claim the first alternate that is open, has room and suits the instance's group; None when there is none.

    An instance that holds one of them already keeps it: asking again after a crash gives the same answer.
    """
    with write_tx(ALIAS):
        held = allocation_claims.held_selection(instance_uuid, alternates)
        fates = {held.host: USED} if held else {}
        for alternate in () if held else alternates:
            fates[alternate.host] = _try(instance_uuid, alternate, project_id, user_id)
            if fates[alternate.host] == USED:
                held = alternate
                break
        decision_log.note_alternates(instance_uuid, [alternate.host for alternate in alternates], fates)
        return held


def mark_alternate(run_uuid: str, instance_uuid: str, host: str, fate: str) -> None:
    """Note what became of `host`, which the decision of an API-level run named for the instance."""
    decision_log.mark(run_uuid, instance_uuid, {host: fate})


def _try(instance_uuid: str, alternate: Selection, project_id: str, user_id: str) -> str:
    if not cell_facts.is_open(alternate.cell, alternate.host):
        return NOT_OPEN
    member = InstanceGroupMember.objects.filter(instance_uuid=instance_uuid).select_related("group").first()
    if member:  # the policy holds against what is claimed by now, and nobody claims for the group meanwhile
        InstanceGroup.objects.select_for_update().filter(pk=member.group_id).first()
    if member and not may_join(request_completion.group_spec(member.group), instance_uuid, alternate.host):
        return CLAIM_FAILED
    try:
        allocation_claims.claim({instance_uuid: alternate}, project_id=project_id, user_id=user_id)
    except ProviderFull:
        return CLAIM_FAILED
    return USED
