"""Have the host start the shelved guest: from its kept image where it was given up, else as it is."""

from __future__ import annotations

from typing import Any

from conductor.cell_db.models import Instance
from conductor.core.errors import NotFound
from conductor.core.request_spec import ImageSpec
from conductor.core.states import PowerState
from conductor.image.operations import image_spec
from conductor.image.queries import visible_to
from conductor.rpc.messages import DestroyInstance, PowerOff, PowerOn, SpawnInstance
from conductor.workflows.flow import RemoteStep, Result, Work
from conductor.workflows.steps import instance_rows
from conductor.workflows.steps.choose_host_again import is_offloaded
from conductor.workflows.steps.on_host import addressed, guest_of


class UnshelveOnHost(RemoteStep):
    title = "Start on host"
    event = "compute_unshelve_instance"

    def command(self, work: Work) -> Any:
        instance = instance_rows.read(work)
        to = addressed(work, instance.host or "")
        if not is_offloaded(work):
            return PowerOn(**to, guest=guest_of(work, instance))
        if not instance.shelved_image_id:  # its root disk is a volume
            return SpawnInstance(**to, guest=guest_of(work, instance))
        return SpawnInstance(**to, guest=guest_of(work, instance, image=_kept(instance)))

    def apply(self, work: Work, result: Result) -> None:
        instance_rows.update(work, power_state=PowerState.RUNNING)

    def revert_command(self, work: Work) -> Any:
        host = instance_rows.read(work).host
        if not host:
            return None
        if is_offloaded(work):
            return DestroyInstance(**addressed(work, host))
        return PowerOff(**addressed(work, host), timeout_seconds=0.0)

    def apply_revert(self, work: Work) -> None:
        instance_rows.update(work, power_state=PowerState.SHUTDOWN)


def _kept(instance: Instance) -> ImageSpec:
    """The image that the server was shelved as. Raises NotFound when it was deleted, or is not the project's."""
    row = visible_to(instance.project_id).filter(uuid=instance.shelved_image_id).first()
    if row is None:
        raise NotFound(f"The image {instance.shelved_image_id} that the server was shelved as is gone.")
    return image_spec(row)
