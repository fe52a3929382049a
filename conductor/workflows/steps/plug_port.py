"""Give the server the port: its place, its host, its addresses."""

from __future__ import annotations

from conductor.core.errors import KeptByHost
from conductor.network import ports
from conductor.workflows.flow import Result, Retry, Step, Work
from conductor.workflows.steps import devices, instance_rows


class PlugPort(Step):
    title = "Plug port"
    lane = "Cell conductor"
    revert_retry = Retry(tries=3, pause_seconds=2.0)

    def execute(self, work: Work) -> Result:
        instance = instance_rows.read(work)
        with work.fenced("default"):
            plugged = ports.plug_one(
                instance_uuid=work.instance_uuid,
                port_id=work.inputs["port_id"],
                project_id=instance.project_id,
                binding=ports.Binding(instance.host or "", f"compute:{instance.availability_zone}"),
                tag=work.inputs.get("tag"),
            )
        return {"port": plugged}

    def apply(self, work: Work, result: Result) -> None:
        instance_rows.update(work, addresses=[*without(work), result["port"]])

    def revert(self, work: Work, result: Result) -> None:
        """A port that the guest may still have is nobody else's, as its addresses are."""
        host = devices.kept_by(work)
        if host:
            raise KeptByHost(f"Port {work.inputs['port_id']} stays with the server until host {host} lets it go.")
        with work.fenced("default"):
            ports.unplug_one(work.instance_uuid, work.inputs["port_id"])

    def apply_revert(self, work: Work) -> None:
        instance_rows.update(work, addresses=without(work))


def without(work: Work) -> list[dict[str, object]]:
    """The server's ports but for the run's own."""
    return [port for port in instance_rows.read(work).addresses if port["port_uuid"] != work.inputs["port_id"]]
