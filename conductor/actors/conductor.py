"""Doors of the conductor: a doorbell for a run, and messages from compute hosts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conductor.rpc import trust
from conductor.rpc.broker import CONDUCTOR_QUEUE, door, put_back
from conductor.rpc.codec import UnknownMessage, decode
from conductor.rpc.messages import (
    ConsolesOffered,
    ConsolesWritten,
    ConsoleWritten,
    GuestsCounted,
    HostReported,
    RefusalsCounted,
    StepAnswered,
    StepProgressed,
)
from conductor.rpc.trust import Received
from conductor.services import (
    console_doors,
    console_logs,
    driver_doings,
    guest_counts,
    host_keys,
    host_reports,
    port_filters,
    refused_messages,
)
from conductor.services.reconciliation import undos
from conductor.workflows import engine


def _take_report(cell: str, message: HostReported) -> None:
    if host_reports.record(cell, message):
        driver_doings.store(message)
    port_filters.settle(message)
    host_keys.settle(message)


def _take_answer(cell: str, message: StepAnswered) -> None:
    if engine.answer(cell, message):
        undos.go_on_after(cell, message.run_uuid)


RECEIVERS: dict[type[Any], Callable[[str, Any], None]] = {
    StepAnswered: _take_answer,
    StepProgressed: engine.progress,
    HostReported: _take_report,
    ConsoleWritten: console_logs.store,
    ConsolesWritten: console_logs.store_all,
    ConsolesOffered: console_doors.record,
    GuestsCounted: guest_counts.record,
    RefusalsCounted: refused_messages.record,
}


@door(trust.RING, CONDUCTOR_QUEUE)
def conductor_ring(received: Received) -> None:
    """Look at a run: {"alias", "run_uuid"}."""
    engine.run(received.body["alias"], received.body["run_uuid"])


@door(trust.TO_CONDUCTOR, CONDUCTOR_QUEUE)
def conductor_message(received: Received) -> None:
    """A message from a compute host about itself, to the conductor of its cell."""
    try:
        message = decode(received.body)
    except UnknownMessage:
        put_back()  # newer than this process: not ours to drop
        return
    RECEIVERS[type(message)](received.body["cell"], message)
