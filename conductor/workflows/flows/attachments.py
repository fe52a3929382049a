"""Flows that attach and detach volumes and ports, and swap and extend attached volumes."""

from __future__ import annotations

from typing import Any

from conductor.core.errors import KeptByHost
from conductor.network import ports
from conductor.rpc.messages import AttachInterface, AttachVolume, DetachInterface, DetachVolume, SwapVolume
from conductor.volume import messages, operations
from conductor.workflows.flow import UNTIL_DONE, Flow, RemoteStep, Result, RetryPolicy, Step, StepContext
from conductor.workflows.steps import devices, instance_rows
from conductor.workflows.steps.instance_state import EndAction, NoteFailure
from conductor.workflows.steps.on_host import addressed


class AttachOnHost(RemoteStep):
    """Attaches the volume on the server's host; without a host nothing is sent."""

    title = "Attach on host"
    event = "compute_attach_volume"

    def command(self, work: StepContext) -> Any:
        host = instance_rows.read(work).host
        return AttachVolume(**addressed(work, host), volume=devices.read(work).connection) if host else None

    def revert_command(self, work: StepContext) -> Any:
        """Detach it there."""
        host = instance_rows.read(work).host
        return DetachVolume(**addressed(work, host), volume_uuid=work.inputs["volume_id"]) if host else None


class GrowOnHost(RemoteStep):
    """Attaches the volume again: the guest keeps it, and sees its new size.

    No revert: a volume does not shrink.
    """

    title = "Resize the disk in the server"
    event = "compute_extend_volume"

    def command(self, work: StepContext) -> Any:
        host, device = instance_rows.read(work).host, devices.rows(work).first()
        return AttachVolume(**addressed(work, host), volume=device.connection) if host and device else None


class BeginDetaching(Step):
    """Sets the volume to detaching."""

    title = "Begin detaching"
    lane = "Cell conductor"

    def execute(self, work: StepContext) -> Result:
        with work.fenced("default"):
            operations.begin_detaching(work.inputs["attachment_id"])
        return {}

    def revert(self, work: StepContext, result: Result) -> None:
        """Set the volume to in use."""
        with work.fenced("default"):
            operations.complete(work.inputs["attachment_id"])


class DetachOnHost(RemoteStep):
    """Detaches the volume on the server's host; without a host nothing is sent."""

    title = "Detach on host"
    event = "compute_detach_volume"

    def command(self, work: StepContext) -> Any:
        host = instance_rows.read(work).host
        return DetachVolume(**addressed(work, host), volume_uuid=work.inputs["volume_id"]) if host else None

    def revert_command(self, work: StepContext) -> Any:
        """Attach it there."""
        host = instance_rows.read(work).host
        return AttachVolume(**addressed(work, host), volume=devices.read(work).connection) if host else None


class GiveDeviceUp(NoteFailure):
    """Removes the device's row, unless a host may still have the device, and records the failure."""

    title = "Record failure"

    def commit(self, work: StepContext, result: Result) -> None:
        if not work.run.uncompensated:  # what a host may still have must stay recorded
            devices.rows(work).delete()
        super().commit(work, result)


class GivePortUp(NoteFailure):
    """Releases the port, unless a host may still have it, and records the failure."""

    title = "Record failure"
    retry = UNTIL_DONE

    def execute(self, work: StepContext) -> Result:
        if devices.kept_by(work):
            return {}
        with work.fenced("default"):
            ports.unplug_one(work.instance_uuid, work.inputs["port_id"])
        return {}


class MarkAttached(Step):
    """Sets the volume to in use.

    No revert: the revert of ReserveVolume releases the volume, in use or not.
    """

    title = "Mark as attached"
    lane = "Cell conductor"
    retry = RetryPolicy(max_attempts=5)

    def execute(self, work: StepContext) -> Result:
        with work.fenced("default"):
            operations.complete(work.inputs["attachment_id"])
        return {}

    def commit(self, work: StepContext, result: Result) -> None:
        instance_rows.update(work)


class MarkSwapped(Step):
    """Gives the old device's name, tag and options to the new volume, and releases the old one.

    No revert: another server may get the old volume at once, so the run cannot be cancelled from here on.
    """

    title = "Mark as swapped"
    lane = "Cell conductor"
    retry = UNTIL_DONE

    def execute(self, work: StepContext) -> Result:
        old = devices.replaced(work)
        with work.fenced("default"):
            operations.replace(str(old.uuid), work.inputs["attachment_id"], old.device_name)
        return {}

    def commit(self, work: StepContext, result: Result) -> None:
        """Keep the old device's name, tag and options."""
        old, new = devices.replaced(work), devices.read(work)
        old.delete()
        devices.rows(work).update(
            device_name=old.device_name,
            boot_index=old.boot_index,
            tag=old.tag,
            delete_on_termination=old.delete_on_termination,
            connection=devices.in_place_of(old, new.connection),
        )
        instance_rows.update(work)


class PlugOnHost(RemoteStep):
    """Attaches the port on the server's host."""

    title = "Attach on host"
    event = "compute_attach_interface"

    def command(self, work: StepContext) -> Any:
        host = instance_rows.read(work).host or ""
        return AttachInterface(**addressed(work, host), port=work.result_of(PlugPort)["port"])

    def commit(self, work: StepContext, result: Result) -> None:
        instance_rows.update(work)

    def revert_command(self, work: StepContext) -> Any:
        """Detach it there."""
        host = instance_rows.read(work).host or ""
        return DetachInterface(**addressed(work, host), port_uuid=work.inputs["port_id"])


class PlugPort(Step):
    """Binds the port to the server on its host."""

    title = "Plug port"
    lane = "Cell conductor"
    revert_retry = RetryPolicy(max_attempts=3, pause_seconds=2.0)

    def execute(self, work: StepContext) -> Result:
        instance = instance_rows.read(work)
        with work.fenced("default"):
            plugged = ports.plug_one(
                instance_uuid=work.instance_uuid,
                port_id=work.inputs["port_id"],
                project_id=instance.project_id,
                binding=ports.Binding(
                    instance.host or "", f"compute:{instance.availability_zone}", hostname=instance.hostname
                ),
                tag=work.inputs.get("tag"),
            )
        return {"port": plugged}

    def commit(self, work: StepContext, result: Result) -> None:
        instance_rows.update(work, addresses=[*without(work), result["port"]])

    def revert(self, work: StepContext, result: Result) -> None:
        """Release the port, unless the guest may still have it and its addresses."""
        host = devices.kept_by(work)
        if host:
            raise KeptByHost(f"Port {work.inputs['port_id']} stays with the server until host {host} lets it go.")
        with work.fenced("default"):
            ports.unplug_one(work.instance_uuid, work.inputs["port_id"])

    def commit_revert(self, work: StepContext) -> None:
        instance_rows.update(work, addresses=without(work))


def without(work: StepContext) -> list[dict[str, object]]:
    """Return the server's ports except the run's own."""
    return [port for port in instance_rows.read(work).addresses if port["port_uuid"] != work.inputs["port_id"]]


class ReleaseVolume(Step):
    """Sets the volume to available, and removes the device's row.

    No revert: another server may get the volume at once, so the run cannot be cancelled from here on.
    """

    title = "Release volume"
    lane = "Cell conductor"
    retry = UNTIL_DONE

    def execute(self, work: StepContext) -> Result:
        with work.fenced("default"):
            operations.release(work.inputs["attachment_id"])
        return {}

    def commit(self, work: StepContext, result: Result) -> None:
        devices.rows(work).delete()
        instance_rows.update(work)


class ReserveVolume(Step):
    """Reserves the volume for the server: its status is `attaching`."""

    title = "Reserve volume"
    lane = "Cell conductor"
    revert_retry = RetryPolicy(max_attempts=3, pause_seconds=2.0)

    def execute(self, work: StepContext) -> Result:
        lending = devices.lending(work)
        with work.fenced("default"):
            operations.reserve(lending)
        return {}

    def revert(self, work: StepContext, result: Result) -> None:
        """Release the volume, unless a host may still write to it: then it stays reserved, as an uncompensated effect.

        A message of the volume informs its owner that it is free again, and why the server did not get it.
        """
        volume_id, host = work.inputs["volume_id"], devices.kept_by(work)
        if host:
            raise KeptByHost(f"Volume {volume_id} stays reserved until host {host} lets it go.")
        with work.fenced("default"):
            if operations.release(work.inputs["attachment_id"]):
                messages.create_message(work.context, messages.ATTACH_FAILED, "VOLUME", volume_id, _why(work))


def _why(work: StepContext) -> str:
    cause = (work.run.error or {}).get("message") or "it was cancelled."
    is_late = (work.run.orders or {}).get("kind") == "undo"  # an earlier undo had to wait for an unresponsive host
    now = "The server's host has let it go by now: it is free again." if is_late else "It is free again."
    return f"Server {work.instance_uuid} did not get the volume. {now} Cause: {cause}"


class SwapOnHost(RemoteStep):
    """Has the host copy the data to the new volume and switch the guest to it."""

    title = "Swap on host"
    event = "compute_swap_volume"

    def command(self, work: StepContext) -> Any:
        old, new = devices.replaced(work), devices.read(work)
        return self._swap(work, str(old.volume_uuid), devices.in_place_of(old, new.connection))

    def revert_command(self, work: StepContext) -> Any:
        """Swap back; this copies as well, because new data of the guest are only on the new volume."""
        return self._swap(work, work.inputs["volume_id"], devices.replaced(work).connection)

    def _swap(self, work: StepContext, old_uuid: str, volume: dict[str, Any]) -> Any:
        to = addressed(work, instance_rows.read(work).host or "")
        return SwapVolume(**to, old_volume_uuid=old_uuid, volume=volume)


class UnplugOnHost(RemoteStep):
    """Detaches the port on the server's host."""

    title = "Detach on host"
    event = "compute_detach_interface"

    def command(self, work: StepContext) -> Any:
        host = instance_rows.read(work).host or ""
        return DetachInterface(**addressed(work, host), port_uuid=work.inputs["port_id"])

    def revert_command(self, work: StepContext) -> Any:
        """Attach it there."""
        instance = instance_rows.read(work)
        plugged = [port for port in instance.addresses if port["port_uuid"] == work.inputs["port_id"]]
        return AttachInterface(**addressed(work, instance.host or ""), port=plugged[0]) if plugged else None


class UnplugPort(Step):
    """Releases the port, or removes one that was created for the server or is to be deleted.

    No revert: another server may get its address at once, so the run cannot be cancelled from here on.
    """

    title = "Release port"
    lane = "Cell conductor"
    retry = UNTIL_DONE

    def execute(self, work: StepContext) -> Result:
        with work.fenced("default"):
            ports.unplug_one(work.instance_uuid, work.inputs["port_id"], is_deleted=work.inputs["is_deleted"])
        return {}

    def commit(self, work: StepContext, result: Result) -> None:
        instance_rows.update(work, addresses=without(work))


ATTACH_VOLUME = Flow(
    "attach_volume",
    version=1,
    steps=(
        ReserveVolume(),  # no other server gets it; revert releases it
        AttachOnHost(),  # one command to the host, the run suspends; revert detaches it from the guest
        MarkAttached(),
    ),
    on_failure=GiveDeviceUp(),
    on_cancel=GiveDeviceUp(),
)


DETACH_VOLUME = Flow(
    "detach_volume",
    version=1,
    steps=(
        BeginDetaching(),  # revert sets it to in use again
        DetachOnHost(),  # one command to the host, the run suspends; revert attaches it to the guest
        ReleaseVolume(),
    ),
    on_failure=NoteFailure(),
    on_cancel=NoteFailure(),
    cancellable_until="ReleaseVolume",
)


EXTEND_VOLUME = Flow(
    "extend_volume",
    version=1,
    steps=(
        GrowOnHost(),  # no revert: a volume does not shrink
    ),
    on_failure=EndAction(),
    on_cancel=EndAction(),
)


SWAP_VOLUME = Flow(
    "swap_volume",
    version=1,
    steps=(
        ReserveVolume(),  # the new volume: no other server gets it; revert releases it
        SwapOnHost(),  # one command to the host, the run suspends; revert returns the guest to the old volume
        MarkSwapped(),
    ),
    on_failure=GiveDeviceUp(),
    on_cancel=GiveDeviceUp(),
    cancellable_until="MarkSwapped",
)


ATTACH_INTERFACE = Flow(
    "attach_interface",
    version=1,
    steps=(
        PlugPort(),  # the port is the server's; revert releases it, or deletes one that was created for it
        PlugOnHost(),  # one command to the host, the run suspends; revert unplugs it from the guest
    ),
    on_failure=GivePortUp(),
    on_cancel=GivePortUp(),
)


DETACH_INTERFACE = Flow(
    "detach_interface",
    version=1,
    steps=(
        UnplugOnHost(),  # one command to the host, the run suspends; revert plugs it into the guest
        UnplugPort(),
    ),
    on_failure=NoteFailure(),
    on_cancel=NoteFailure(),
    cancellable_until="UnplugPort",
)
