"""Let nothing new come to a host that is to be emptied, and have it as before when that is given up."""

from __future__ import annotations

from typing import Any

from conductor import events
from conductor.cell_db.models import ComputeNode, Drain, Service
from conductor.placement import traits
from conductor.workflows.flow import Result, Step, Work


class CloseHost(Step):
    """It was closed when that was asked for; who was on the way there before holds it, and is waited for.

    No undo here: a drain that is given up ends with OpenHost, also before this step.
    """

    title = "Close host"
    lane = "Cell conductor"

    def apply(self, work: Work, result: Result) -> None:
        reason = f"is being emptied by workflow {work.run.uuid}"
        set_service(work, work.inputs["host"], is_disabled=True, disabled_reason=reason)


class OpenHost(Step):
    """The host takes what it took before the drain, unless it is to stay closed."""

    name = "OpenHost"
    title = "Open host again"
    lane = "Cell conductor"

    def apply(self, work: Work, result: Result) -> None:
        drain = Drain.objects.using(work.alias).filter(run_uuid=work.run.uuid).first()
        if drain is not None and not drain.stays_closed:
            set_service(work, drain.host, is_disabled=drain.was_disabled, disabled_reason=drain.reason_before)


def is_closed(work: Work, host: str) -> bool:
    """Whether a host takes no new work."""
    return Service.objects.using(work.alias).filter(binary="nova-compute", host=host, is_disabled=True).exists()


def set_service(work: Work, host: str, **values: Any) -> None:
    """Change a host's compute service and tell its followers and placement; inside a fenced transaction."""
    if values.get("is_disabled") is False:
        values["maintenance_note"] = ""
    Service.objects.using(work.alias).filter(binary="nova-compute", host=host).update(**values)
    events.append(work.alias, events.about_host(host), "host.updated", values)
    if "is_disabled" in values:
        nodes = ComputeNode.objects.using(work.alias).filter(host=host).values_list("uuid", flat=True)
        traits.mark(nodes, traits.DISABLED, is_on=values["is_disabled"])  # where this is lost, the next report tells
