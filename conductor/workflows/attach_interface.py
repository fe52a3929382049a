"""Attach interface: the server gets one more port while it runs."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.give_port_up import GivePortUp
from conductor.workflows.steps.plug_on_host import PlugOnHost
from conductor.workflows.steps.plug_port import PlugPort

ATTACH_INTERFACE = Flow(
    "attach_interface",
    version=1,
    steps=(
        PlugPort(),  # the port is the server's; revert gives it back, or removes one that was made for it
        PlugOnHost(),  # one message to the host, the run parks; revert takes it from the guest
    ),
    on_failure=GivePortUp(),
    on_cancel=GivePortUp(),
)
