"""Flows that shelve a server, offload it from its host, and unshelve it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.conf import settings

from conductor.api_db.models import HostMapping, RequestSpecRecord
from conductor.cell_db.models import Instance
from conductor.core.errors import NotFound
from conductor.core.request_spec import FlavorSpec, ImageSpec, RequestSpec
from conductor.core.selection import Selection
from conductor.core.states import PowerState, TaskState, VmState
from conductor.db.transactions import database_now
from conductor.image.operations import image_spec
from conductor.image.queries import visible_to
from conductor.network import ports
from conductor.rpc import outbox
from conductor.rpc.messages import DestroyInstance, PowerOff, PowerOn, SpawnInstance
from conductor.scheduler import claims, manager
from conductor.volume import operations as volumes
from conductor.workflows.flow import UNTIL_DONE, Flow, RemoteStep, Result, Step, StepContext
from conductor.workflows.steps import instance_rows
from conductor.workflows.steps.images import ActivateImage, GiveImageUp, ReserveImage, SnapshotOnHost, discard
from conductor.workflows.steps.instance_state import EndAction, NoteFailure
from conductor.workflows.steps.on_host import DestroyOnHost, addressed, guest_of


class StopForShelving(RemoteStep):
    """Stops the guest; to a stopped one nothing is sent."""

    title = "Turn off"

    def command(self, work: StepContext) -> Any:
        instance = instance_rows.read(work)
        if instance.vm_state == VmState.STOPPED:
            return None
        return PowerOff(**addressed(work, instance.host or ""))

    def commit(self, work: StepContext, result: Result) -> None:
        instance_rows.update(work, power_state=PowerState.SHUTDOWN)

    def revert_command(self, work: StepContext) -> Any:
        """Start the guest, unless the server was stopped."""
        instance = instance_rows.read(work)
        if instance.vm_state == VmState.STOPPED:
            return None
        return PowerOn(**addressed(work, instance.host or ""), guest=guest_of(work, instance))

    def commit_revert(self, work: StepContext) -> None:
        """Set the state to active: it was started again, so it is neither paused nor suspended any more."""
        if instance_rows.read(work).vm_state != VmState.STOPPED:
            instance_rows.update(work, vm_state=VmState.ACTIVE, power_state=PowerState.RUNNING)


class SnapshotForShelving(SnapshotOnHost):
    """Has the host copy the stopped guest's root disk into the image store.

    No revert: the guest stays as it is, and the copied data are removed with the image.
    """

    event = "compute_shelve_instance"
    shows = TaskState.SHELVING_IMAGE_UPLOADING


class MarkShelved(Step):
    """Sets the server to shelved, and starts `offload_instance` if its host is to be released at once.

    Offloading is a workflow of its own, which waits for this one's locks.

    No revert: it is the last step.
    """

    title = "Mark as shelved"
    lane = "Cell conductor"

    def commit(self, work: StepContext, result: Result) -> None:
        image_id = work.inputs.get("image_id", "")  # none where the root disk is a volume, which is kept as it is
        is_offloaded_now = settings.NOVELLA_SHELVED_OFFLOAD_SECONDS == 0 or not image_id
        instance_rows.update(
            work,
            previous_vm_state=instance_rows.read(work).vm_state,
            vm_state=VmState.SHELVED,
            task_state=TaskState.SHELVING_OFFLOADING if is_offloaded_now else None,
            shelved_image_id=image_id,
            shelved_at=database_now(),
        )
        if is_offloaded_now:
            _open_offload(work)


def _open_offload(work: StepContext) -> None:
    wanted = outbox.NewRun(
        flow="offload_instance",
        action=work.run.action,
        context=work.context,
        resources=[f"instance:{work.instance_uuid}"],
        instance_uuid=work.instance_uuid,
        instance_name=work.run.instance_name,
        parent_uuid=work.run.uuid,
    )
    outbox.open_run(work.alias, wanted, may_wait=True)


class MarkOffloaded(Step):
    """Sets the server to shelved and offloaded, without a host."""

    title = "Mark as offloaded"
    lane = "Cell conductor"
    retry = UNTIL_DONE  # no revert: the flow only goes forward

    def commit(self, work: StepContext, result: Result) -> None:
        instance_rows.update(
            work, vm_state=VmState.SHELVED_OFFLOADED, task_state=None, host=None, node=None, availability_zone=""
        )


class OffloadFromHost(DestroyOnHost):
    """Destroys the guest on its host, as soon as the host answers.

    No revert: the guest is off, and kept as an image or a volume.
    """

    title = "Remove from host"
    event = "compute_shelve_offload_instance"

    def on_start(self, work: StepContext) -> None:
        instance_rows.update(work, task_state=TaskState.SHELVING_OFFLOADING)


class UnbindPorts(Step):
    """Unbinds ports and volumes from the host; the server keeps them."""

    title = "Unbind ports"
    lane = "Cell conductor"
    retry = UNTIL_DONE  # no revert: the flow only goes forward

    def execute(self, work: StepContext) -> Result:
        with work.fenced("default"):
            ports.unbind(work.instance_uuid)
            volumes.move(work.instance_uuid, "")
        return {}


class FreeClaim(Step):
    """Releases the allocation."""

    title = "Release claim"
    lane = "Cell conductor"
    retry = UNTIL_DONE  # no revert: the flow only goes forward

    def execute(self, work: StepContext) -> Result:
        with work.fenced("default"):
            claims.release(work.instance_uuid)
        return {}


class ChooseHostAgain(Step):
    """Asks the scheduler for a host and claims it, unless the server is still on its old one."""

    title = "Select host"
    lane = "Scheduler"
    event = "schedule_instances"

    def execute(self, work: StepContext) -> Result:
        if not is_offloaded(work):
            return {}
        (selections,) = manager.call_one(manager.DestinationRequest.of(work, _spec(work), [work.instance_uuid]))
        return {"selection": selections[0].to_json()}

    def commit(self, work: StepContext, result: Result) -> None:
        if "selection" in result:
            chosen = Selection.from_json(result["selection"])
            instance_rows.update(work, host=chosen.host, node=chosen.node, availability_zone=chosen.availability_zone)

    def revert(self, work: StepContext, result: Result) -> None:
        """Release the claim."""
        if is_offloaded(work):
            with work.fenced("default"):
                claims.release(work.instance_uuid)

    def commit_revert(self, work: StepContext) -> None:
        if is_offloaded(work):
            instance_rows.update(work, host=None, node=None, availability_zone="")


def is_offloaded(work: StepContext) -> bool:
    """Whether the server is offloaded; its state shows that until it is unshelved."""
    return bool(instance_rows.read(work).vm_state == VmState.SHELVED_OFFLOADED)


def _spec(work: StepContext) -> RequestSpec:
    """Return the original request spec, with the server's current flavor and this time's zone or host."""
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
    """Return every host of other cells, or every host but `host` where one is requested; the filters exclude them."""
    rows = HostMapping.objects.exclude(host=host) if host else HostMapping.objects.exclude(cell__name=cell)
    return tuple(rows.order_by("host").values_list("host", flat=True))


class BindPorts(Step):
    """Binds ports and volumes to the host, unless the server is still on its old one."""

    title = "Bind ports"
    lane = "Cell conductor"
    event = "compute_allocate_networks"

    def execute(self, work: StepContext) -> Result:
        if not is_offloaded(work):
            return {}
        instance = instance_rows.read(work)
        with work.fenced("default"):
            bound = ports.bind(work.instance_uuid, instance.host or "", f"compute:{instance.availability_zone}")
            volumes.move(work.instance_uuid, instance.host or "")
        return {"ports": bound}

    def commit(self, work: StepContext, result: Result) -> None:
        if "ports" in result:
            instance_rows.update(work, addresses=result["ports"])

    def revert(self, work: StepContext, result: Result) -> None:
        """Unbind them."""
        if is_offloaded(work):
            with work.fenced("default"):
                ports.unbind(work.instance_uuid)
                volumes.move(work.instance_uuid, "")


class UnshelveOnHost(RemoteStep):
    """Builds the guest from its image or root volume, or starts the one that is still there."""

    title = "Start on host"
    event = "compute_unshelve_instance"

    def command(self, work: StepContext) -> Any:
        instance = instance_rows.read(work)
        to = addressed(work, instance.host or "")
        if not is_offloaded(work):
            return PowerOn(**to, guest=guest_of(work, instance))
        if not instance.shelved_image_id:  # its root disk is a volume
            return SpawnInstance(**to, guest=guest_of(work, instance))
        return SpawnInstance(**to, guest=guest_of(work, instance, image=_kept(instance)))

    def commit(self, work: StepContext, result: Result) -> None:
        instance_rows.update(work, power_state=PowerState.RUNNING)

    def revert_command(self, work: StepContext) -> Any:
        """Destroy the guest, or power off the one that was still there."""
        host = instance_rows.read(work).host
        if not host:
            return None
        if is_offloaded(work):
            return DestroyInstance(**addressed(work, host))
        return PowerOff(**addressed(work, host), timeout_seconds=0.0)

    def commit_revert(self, work: StepContext) -> None:
        instance_rows.update(work, power_state=PowerState.SHUTDOWN)


def _kept(instance: Instance) -> ImageSpec:
    """Return the image of the shelved server. Raises NotFound when it was deleted, or is not the project's."""
    row = visible_to(instance.project_id).filter(uuid=instance.shelved_image_id).first()
    if row is None:
        raise NotFound(f"The image {instance.shelved_image_id} that the server was shelved as is gone.")
    return image_spec(row)


class FinishUnshelve(Step):
    """Removes the image, stores the requested zone, and sets the server to active.

    No revert: the image is deleted, so the run cannot be cancelled from here on.
    """

    title = "Activate"
    lane = "Cell conductor"
    retry = UNTIL_DONE

    def execute(self, work: StepContext) -> Result:
        instance = instance_rows.read(work)
        if instance.shelved_image_id:
            discard(work, instance.shelved_image_id)
        zone = work.inputs.get("availability_zone")
        if zone is not None:
            with work.fenced("default"):
                record = RequestSpecRecord.objects.select_for_update().get(instance_uuid=work.instance_uuid)
                record.spec = {**record.spec, "availability_zone": zone}
                record.save(update_fields=["spec"])
        return {}

    def commit(self, work: StepContext, result: Result) -> None:
        zone = work.inputs.get("availability_zone")
        instance_rows.update(
            work,
            vm_state=VmState.ACTIVE,
            task_state=None,
            previous_vm_state="",
            shelved_image_id="",
            shelved_at=None,
            launched_at=database_now(),
            **({} if zone is None else {"pinned_availability_zone": zone}),
        )


SHELVE_INSTANCE = Flow(
    "shelve_instance",
    version=1,
    steps=(
        ReserveImage(),  # waits for data, under lock; revert removes it with any data
        StopForShelving(),  # revert starts it again
        SnapshotForShelving(),  # one command to the host, the run suspends
        ActivateImage(),  # uses the data that the host stored
        MarkShelved(),  # and starts offload_instance if the host is released at once
    ),
    on_failure=GiveImageUp(),
    on_cancel=GiveImageUp(),
)


SHELVE_WITH_ROOT_VOLUME = Flow(
    "shelve_with_root_volume",
    version=1,
    steps=(
        StopForShelving(),  # revert starts it again
        MarkShelved(),  # and starts offload_instance: the host has no data to keep
    ),
    on_failure=EndAction(),
    on_cancel=EndAction(),
)


OFFLOAD_INSTANCE = Flow(
    "offload_instance",
    version=1,
    steps=(
        OffloadFromHost(),  # deferred for an unresponsive host
        UnbindPorts(),
        FreeClaim(),
        MarkOffloaded(),
    ),
    cancellable_until=None,  # a half-removed guest is useless: it goes forward until it is done
)


UNSHELVE_INSTANCE = Flow(
    "unshelve_instance",
    version=1,
    steps=(
        ChooseHostAgain(),  # one pass over the cell's hosts; claims in placement; revert releases the claim
        BindPorts(),  # the ports that it kept; revert unbinds them again
        UnshelveOnHost(),  # one command to the host, the run suspends; revert destroys the guest, or powers it off
        FinishUnshelve(),  # deletes the image
    ),
    on_failure=NoteFailure(),
    on_cancel=NoteFailure(),
    cancellable_until="FinishUnshelve",
)
