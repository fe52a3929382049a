"""Message actors of the conductor: notifications of runs, and messages from compute hosts and schedulers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conductor.actors import report_intake
from conductor.actors.report_intake import INTAKE
from conductor.rpc import trust
from conductor.rpc.broker import CONDUCTOR_QUEUE, message_actor, put_back
from conductor.rpc.codec import UnknownMessage, decode
from conductor.rpc.messages import (
    ConsolesOffered,
    ConsolesWritten,
    ConsoleWritten,
    DestinationsSelected,
    GuestsCounted,
    HostReported,
    RefusalsCounted,
    SchedulerReported,
    StepAnswered,
    StepProgressed,
)
from conductor.rpc.trust import AuthenticatedMessage
from conductor.services.consoles import connections, logs
from conductor.services.operations import refused_messages
from conductor.services.operations.reconciliation import undos
from conductor.services.servers import guest_metrics
from conductor.workflows import scheduler_calls
from conductor.workflows.engine import executor


def _take_report(cell: str, message: HostReported) -> None:
    if INTAKE.is_running:
        INTAKE.put(cell, message)
    else:
        report_intake.record(cell, message)


def _take_answer(cell: str, message: StepAnswered) -> None:
    if executor.answer(cell, message):
        undos.go_on_after(cell, message.run_uuid)


RECEIVERS: dict[type[Any], Callable[[str, Any], None]] = {
    StepAnswered: _take_answer,
    StepProgressed: executor.progress,
    HostReported: _take_report,
    ConsoleWritten: logs.store,
    ConsolesWritten: logs.store_all,
    ConsolesOffered: connections.record,
    GuestsCounted: guest_metrics.record,
    RefusalsCounted: refused_messages.record,
    DestinationsSelected: scheduler_calls.take_replies,
    SchedulerReported: scheduler_calls.record_report,
}


@message_actor(trust.NOTIFICATION, CONDUCTOR_QUEUE)
def conductor_notified(received: AuthenticatedMessage) -> None:
    """Execute a run: {"alias", "run_uuid"}."""
    executor.run(received.body["alias"], received.body["run_uuid"])


@message_actor(trust.TO_CONDUCTOR, CONDUCTOR_QUEUE)
def conductor_message(received: AuthenticatedMessage) -> None:
    """Handle a message from a compute host about itself, as a conductor of its cell, or from a scheduler."""
    try:
        message = decode(received.body)
    except UnknownMessage:
        put_back()  # newer than this process, which must not drop it
        return
    RECEIVERS[type(message)](received.body["cell"], message)
