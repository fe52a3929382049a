"""The dramatiq broker and the two doors of the product: one for conductors, one for compute agents.

A message is a doorbell: it may be lost, doubled, late or reordered, and nothing is wrong. The row that it rings
for is the work.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import dramatiq
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import CurrentMessage, ShutdownNotifications

from conductor.rpc.codec import encode

COMPUTE_QUEUE = "compute"
CONDUCTOR_QUEUE = "conductor"
PUT_BACK_MILLISECONDS = 5_000

log = logging.getLogger(__name__)

# No middleware that retries or that interrupts: retries belong to the rows, and time limits to the leases.
broker = StubBroker(middleware=[CurrentMessage(), ShutdownNotifications()])
broker.fail_fast_default = False
dramatiq.set_broker(broker)

Handler = Callable[[dict[str, Any]], None]


def door(name: str, queue: str) -> Callable[[Handler], dramatiq.Actor[[dict[str, Any]], None]]:
    """An actor that takes one JSON body."""
    return dramatiq.actor(actor_name=name, queue_name=queue, broker=broker)


def ring(queue: str, body: Mapping[str, Any]) -> None:
    """Send a conductor a doorbell: {"alias", "run_uuid"}: "look at this run"."""
    _send("conductor_ring", queue, dict(body))


def tell_conductor(cell: str, body: Any) -> None:
    """Send a message (a dataclass of rpc.messages.to_conductor) to the conductor of `cell`."""
    _send("conductor_message", f"{CONDUCTOR_QUEUE}.{cell}", {"cell": cell, **encode(body)})


def tell_compute(queue: str, body: Mapping[str, Any]) -> None:
    """Send an encoded command to the queue of a compute agent."""
    _send("compute_message", queue, dict(body))


def put_back() -> None:
    """Queue the message that this thread works on once more, for a process that understands it."""
    message = CurrentMessage.get_current_message()
    if message is not None:
        log.warning("message put back: %s", message.actor_name)
        broker.enqueue(message, delay=PUT_BACK_MILLISECONDS)


def _send(actor_name: str, queue: str, body: dict[str, Any]) -> None:
    broker.declare_queue(queue)
    broker.enqueue(dramatiq.Message(queue_name=queue, actor_name=actor_name, args=(body,), kwargs={}, options={}))
