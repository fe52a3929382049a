"""Wait until a host is empty; what moves its servers are workflows of their own, begun a few at a time."""

from __future__ import annotations

from conductor import events
from conductor.cell_db.models import Drain
from conductor.cells import host_load
from conductor.core.states import WaitCause
from conductor.workflows.flow import NotYet, Result, Step, Work
from conductor.workflows.steps.close_host import set_service

LOOK_AGAIN_SECONDS = 30.0  # whoever moves the last server away rings earlier


class EmptyHost(Step):
    """Empty means: no server, no way back of a move, nobody who uses the host, no allocation.

    No undo: servers that have left stay where they are.
    """

    title = "Empty host"
    lane = "Cell conductor"

    def execute(self, work: Work) -> Result:
        load = host_load.of(work.alias, work.inputs["host"])
        if load.is_empty:
            return {}
        drain = Drain.objects.using(work.alias).get(run_uuid=work.run.uuid)
        raise NotYet(WaitCause.CHILDREN, _words(load, drain), LOOK_AGAIN_SECONDS)

    def apply(self, work: Work, result: Result) -> None:
        host = work.inputs["host"]
        Drain.objects.using(work.alias).filter(run_uuid=work.run.uuid).update(refused={})
        set_service(work, host, disabled_reason=f"in maintenance: emptied by workflow {work.run.uuid}")
        events.append(work.alias, events.about_host(host), "host.emptied")


def _words(load: host_load.Load, drain: Drain) -> str:
    words = f"left: {load}"
    if drain.is_paused:
        words = f"paused with {load}"
    elif drain.is_late:
        words = f"deadline passed, {load} left"
    return f"{words}; {len(drain.refused)} cannot leave" if drain.refused else words
