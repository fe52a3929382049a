"""Offload: a shelved server gives its host up. It keeps its image, ports, addresses, volumes and quota."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.free_claim import FreeClaim
from conductor.workflows.steps.mark_offloaded import MarkOffloaded
from conductor.workflows.steps.offload_from_host import OffloadFromHost
from conductor.workflows.steps.unbind_ports import UnbindPorts

OFFLOAD_INSTANCE = Flow(
    "offload_instance",
    version=1,
    steps=(
        OffloadFromHost(),  # a silent host is told when it comes back
        UnbindPorts(),
        FreeClaim(),
        MarkOffloaded(),
    ),
    cancellable_until=None,  # half a guest is no use to anybody: it goes forward until it is done
)
