"""The scheduler as a service: takes conductors' calls, decides about all that wait together, and replies.

It stores nothing but decisions and their claims, fenced by the token of the run that called. A call that is repeated,
to it or to another scheduler, gets the stored decision.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django.db import InterfaceError, OperationalError, close_old_connections, connections

from conductor import process_names
from conductor.actors.error_logging import ErrorLogger
from conductor.cells.lookup import API_ALIAS, CELL0, queue_of
from conductor.core import messages
from conductor.core.errors import NovellaError, StaleToken
from conductor.core.request_spec import RequestSpec
from conductor.db.transactions import write_tx
from conductor.failpoints import reach
from conductor.journal import statements
from conductor.rpc import broker, trust
from conductor.rpc.broker import SCHEDULER_QUEUE, message_actor
from conductor.rpc.codec import decode
from conductor.rpc.messages import DestinationsRequested, DestinationsSelected, SchedulerReported
from conductor.rpc.trust import AuthenticatedMessage
from conductor.rpc.versions import SERVICE_VERSION
from conductor.scheduler import manager
from conductor.scheduler.manager import DestinationRequest, Selections

log = logging.getLogger(__name__)

MOST_AT_ONCE = 100
STOP_SECONDS = 10.0

Answer = Selections | Exception | None  # None: no reply, the call is made again


@dataclass(frozen=True)
class _Waiting:
    call: DestinationsRequested
    since: float


class SchedulerService:
    """Queue of calls, and the thread that answers them; thread-safe."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._changed = threading.Condition()
        self._waiting: list[_Waiting] = []
        self._under_way: list[_Waiting] = []
        self._is_stopped = False
        self._decisions, self._seconds = 0, 0.0
        self._complaints = ErrorLogger()
        self._thread = threading.Thread(target=self._run, name="scheduler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Finish the calls under way; conductors make those that wait again, to another scheduler."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)

    def put(self, call: DestinationsRequested) -> None:
        """Queue a call that was authorized."""
        with self._changed:
            self._waiting.append(_Waiting(call, time.monotonic()))
            self._changed.notify()

    def figures(self) -> Mapping[str, Any]:
        """Return what a report says about the queue and the speed; see `cells.schedulers.Scheduler`."""
        with self._changed:
            queued = [*self._under_way, *self._waiting]
            return {
                "worker": process_names.mine(),
                "waiting": len(queued),
                "oldest_seconds": time.monotonic() - queued[0].since if queued else 0.0,
                "decisions": self._decisions,
                "seconds": self._seconds,
            }

    def report(self) -> None:
        """Report to the API level's conductors."""
        body = SchedulerReported(scheduler=self.name, service_version=SERVICE_VERSION, figures=dict(self.figures()))
        broker.reply_to_conductor(queue_of(CELL0), CELL0, body)

    def _run(self) -> None:
        while calls := self._take():
            with self._complaints.about("calls of conductors"):
                self._answer(calls)
            close_old_connections()

    def _take(self) -> list[DestinationsRequested]:
        """Wait for calls, and return all that wait, up to a limit; empty once stopped."""
        with self._changed:
            self._under_way = []
            self._changed.wait_for(lambda: self._waiting or self._is_stopped)
            if self._is_stopped:
                return []
            self._under_way, self._waiting = self._waiting[:MOST_AT_ONCE], self._waiting[MOST_AT_ONCE:]
            return [one.call for one in self._under_way]

    def _answer(self, calls: Sequence[DestinationsRequested]) -> None:
        reach("scheduler.taken")
        newest = {call.step_key: call for call in sorted(calls, key=lambda call: call.fencing_token)}
        began = time.monotonic()
        answers = decide(list(newest.values()))
        with self._changed:
            self._decisions += len(newest)
            self._seconds += time.monotonic() - began
        reach("scheduler.decided")
        replies: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        for call, answer in zip(newest.values(), answers, strict=True):
            if answer is not None:
                replies[call.cell].append(_reply(call, answer))
        for cell, given in replies.items():
            body = DestinationsSelected(scheduler=self.name, replies=given)
            broker.reply_to_conductor(queue_of(cell), cell, body)
        reach("scheduler.replied")


def decide(calls: Sequence[DestinationsRequested]) -> list[Answer]:
    """Answer calls together; those that move or rebuild an instance, or need a database that does not answer, alone."""
    requests = [_request_of(call) for call in calls]
    together = [request for request in requests if request.spec.move is None and not request.spec.is_rebuild]
    answers: dict[str, Answer] = {}
    try:
        found = manager.select_for_many(together)
        answers = {request.step_key: answer for request, answer in zip(together, found, strict=True)}
    except (OperationalError, InterfaceError) as error:
        log.warning("calls are answered alone after an error of their set: %s", error)
    for request in requests:
        if request.step_key not in answers:
            answers[request.step_key] = _alone(request)
    in_order = [answers[request.step_key] for request in requests]
    return [None if isinstance(answer, StaleToken) else answer for answer in in_order]


def _alone(request: DestinationRequest) -> Answer:
    try:
        return manager.select_for_many([request])[0]
    except (OperationalError, InterfaceError):
        log.exception("no decision, the database does not answer: run=%s", request.run_uuid)
        return None


def _request_of(call: DestinationsRequested) -> DestinationRequest:
    return DestinationRequest(
        RequestSpec.from_json(call.spec), call.instance_uuids, call.step_key, call.run_uuid, partial(_fenced, call)
    )


@contextmanager
def _fenced(call: DestinationsRequested, alias: str) -> Iterator[None]:
    """Open a write transaction on the API database in which the call's token is the newest; else raises StaleToken."""
    with write_tx(alias):
        if call.cell == API_ALIAS:
            is_newest = statements.fence(connections[alias], call.run_id, call.fencing_token) is not None
        else:
            is_newest = statements.fence_in_other_database(connections[alias], UUID(call.run_uuid), call.fencing_token)
        if not is_newest:
            raise StaleToken(f"workflow {call.run_uuid}: token {call.fencing_token} is no longer the newest")
        yield


def _reply(call: DestinationsRequested, answer: Selections | Exception) -> dict[str, Any]:
    """Return the reply to a call. Of errors that are not our own only the class is sent: a text may hold secrets."""
    reply: dict[str, Any] = {
        "run_uuid": call.run_uuid,
        "step_key": call.step_key,
        "fencing_token": call.fencing_token,
    }
    if isinstance(answer, NovellaError):
        kept = {"details": answer.details} if answer.details else {}
        reply["error"] = {"class": type(answer).__name__, **messages.fields(answer.message), **kept}
    elif isinstance(answer, Exception):
        log.error("decision failed: run=%s", call.run_uuid, exc_info=answer)
        reply["error"] = {"class": type(answer).__name__, "message": type(answer).__name__}
    return reply


_services: list[SchedulerService] = []


def serve(service: SchedulerService) -> None:
    """Deliver calls to this scheduler."""
    _services.append(service)


@message_actor(trust.TO_SCHEDULER, SCHEDULER_QUEUE)
def scheduler_message(received: AuthenticatedMessage) -> None:
    """Queue a conductor's call; one for another scheduler is logged, and made again later."""
    call = decode(received.body)
    for service in _services:
        if service.name == call.scheduler:
            service.put(call)
            return
    log.warning("call for a scheduler that is not here: name=%s", call.scheduler)
