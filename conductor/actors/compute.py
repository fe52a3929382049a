"""Door of the compute agents in this process."""

from __future__ import annotations

import logging
from typing import Any

from conductor.compute.agent import ComputeAgent
from conductor.rpc.broker import COMPUTE_QUEUE, door

log = logging.getLogger(__name__)

_agents: list[ComputeAgent] = []


def serve(agent: ComputeAgent) -> None:
    """Let commands for the agent's hosts reach it."""
    _agents.append(agent)


@door("compute_message", COMPUTE_QUEUE)
def compute_message(body: dict[str, Any]) -> None:
    """A command for the host that it names; one for a host that is not here is left to ring again."""
    host = body["body"]["host"]
    for agent in _agents:
        if agent.has_host(host):
            agent.receive(body)
            return
    log.warning("command for a host that is not here: host=%s", host)
