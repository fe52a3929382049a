"""Message actor of the compute agents in this process."""

from __future__ import annotations

import logging

from conductor.compute.agent import ComputeAgent
from conductor.rpc import trust
from conductor.rpc.broker import COMPUTE_QUEUE, message_actor
from conductor.rpc.trust import AuthenticatedMessage

log = logging.getLogger(__name__)

_agents: list[ComputeAgent] = []


def serve(agent: ComputeAgent) -> None:
    """Deliver commands for the agent's hosts to it."""
    _agents.append(agent)


@message_actor(trust.TO_COMPUTE, COMPUTE_QUEUE)
def compute_message(received: AuthenticatedMessage) -> None:
    """Deliver a conductor's command to its host; one for a host that is not here is logged, and resent later."""
    host = received.body["body"]["host"]
    for agent in _agents:
        if agent.has_host(host):
            agent.receive(received.body)
            return
    log.warning("command for a host that is not here: host=%s", host)
