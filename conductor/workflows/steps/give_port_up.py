"""The port is not plugged: one that was made for it goes, also where the run was cancelled before it began.

One that the guest may still have stays until the server is deleted.
"""

from __future__ import annotations

from conductor.network import ports
from conductor.workflows.flow import UNTIL_DONE, Result, Work
from conductor.workflows.steps import devices
from conductor.workflows.steps.note_failure import NoteFailure


class GivePortUp(NoteFailure):
    title = "Note failure"
    retry = UNTIL_DONE

    def execute(self, work: Work) -> Result:
        if devices.kept_by(work):
            return {}
        with work.fenced("default"):
            ports.unplug_one(work.instance_uuid, work.inputs["port_id"])
        return {}
