"""Choose a host for a server that has none, in the cell where it lives, and claim it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from conductor.api_db.models import HostMapping, RequestSpecRecord
from conductor.core.request_spec import FlavorSpec, RequestSpec
from conductor.core.selection import Selection
from conductor.core.states import VmState
from conductor.scheduler import allocation_claims, manager
from conductor.workflows.flow import Result, Step, Work
from conductor.workflows.steps import instance_rows


class ChooseHostAgain(Step):
    """Nothing to choose for a shelved server that its host still keeps."""

    title = "Choose host"
    lane = "Scheduler"
    event = "schedule_instances"

    def execute(self, work: Work) -> Result:
        if not is_offloaded(work):
            return {}
        (selections,) = manager.select_destinations(
            work.context,
            _spec(work),
            [work.instance_uuid],
            step_key=work.step_key,
            run_uuid=str(work.run.uuid),
            transaction=work.fenced,  # a stale owner must not claim what nobody would give back
        )
        return {"selection": selections[0].to_json()}

    def apply(self, work: Work, result: Result) -> None:
        if "selection" in result:
            chosen = Selection.from_json(result["selection"])
            instance_rows.update(work, host=chosen.host, node=chosen.node, availability_zone=chosen.availability_zone)

    def revert(self, work: Work, result: Result) -> None:
        if is_offloaded(work):
            with work.fenced("default"):
                allocation_claims.release(work.instance_uuid)

    def apply_revert(self, work: Work) -> None:
        if is_offloaded(work):
            instance_rows.update(work, host=None, node=None, availability_zone="")


def is_offloaded(work: Work) -> bool:
    """Whether the server was given up by its host; its state says so until it is back."""
    return bool(instance_rows.read(work).vm_state == VmState.SHELVED_OFFLOADED)


def _spec(work: Work) -> RequestSpec:
    """What was asked for at first, at the size that the server has now, and where it is wanted this time."""
    instance = instance_rows.read(work)
    spec = RequestSpec.from_json(RequestSpecRecord.objects.get(instance_uuid=work.instance_uuid).spec)
    zone = work.inputs.get("availability_zone")
    wanted: dict[str, Any] = {
        "flavor": FlavorSpec(**instance.flavor),
        "availability_zone": instance.pinned_availability_zone if zone is None else zone,
        "num_instances": 1,
        "force_hosts": (),
        "ignore_hosts": _elsewhere(work.alias, work.inputs.get("host", "")),
    }
    return replace(spec, **wanted)


def _elsewhere(cell: str, host: str) -> tuple[str, ...]:
    """Every host of other cells; where one host is wanted, every other one. Those that are left pass the filters."""
    rows = HostMapping.objects.exclude(host=host) if host else HostMapping.objects.exclude(cell__name=cell)
    return tuple(rows.order_by("host").values_list("host", flat=True))
