"""Unshelve: the server runs again, on its host where that still keeps it, else on a new one in its cell."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.bind_ports import BindPorts
from conductor.workflows.steps.choose_host_again import ChooseHostAgain
from conductor.workflows.steps.finish_unshelve import FinishUnshelve
from conductor.workflows.steps.note_failure import NoteFailure
from conductor.workflows.steps.unshelve_on_host import UnshelveOnHost

UNSHELVE_INSTANCE = Flow(
    "unshelve_instance",
    version=1,
    steps=(
        ChooseHostAgain(),  # one pass over the cell's hosts; claims in placement; revert frees the claim
        BindPorts(),  # the ports that it kept; revert leaves them on no host again
        UnshelveOnHost(),  # one message to the host, the run parks; revert ends the guest, or turns it off
        FinishUnshelve(),  # the kept image goes
    ),
    on_failure=NoteFailure(),
    on_cancel=NoteFailure(),
    cancellable_until="FinishUnshelve",
)
