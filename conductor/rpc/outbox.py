"""Transactional outbox: new runs and their notifications, commands to hosts, wake-ups and cancels.

A command to an unresponsive host may become deferred: no run waits for it any more, and it is sent again until the host
has carried it out. Commands about one instance are sent to a host in order: while a deferred one is not answered, later
ones wait in the outbox. So a host never refuses the earlier of two as out of date, and never gets them in the wrong
order. The order is computed whenever a command is about to be sent, so no state can be left behind by a crash.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

from django.db import InterfaceError, OperationalError, connections, transaction
from django.db.models import QuerySet

from conductor import events
from conductor.cells.lookup import queue_of
from conductor.core.context import RequestContext, system_context
from conductor.core.errors import Invalid, NotFound, NotSupported, StaleToken
from conductor.core.identifiers import new_run_uuid
from conductor.core.states import RunState, WaitCause
from conductor.db.dialect import NOW, SecondsFromNow
from conductor.db.transactions import database_now, write_tx
from conductor.journal import locks, sealing, statements
from conductor.journal.models import LeaseGrant, OutboxMessage, WorkflowRun
from conductor.journal.statements import FIRST_RESEND_SECONDS
from conductor.rpc import backports, broker
from conductor.rpc.codec import encode, registered
from conductor.rpc.messages import ConfirmMigration, DestroyInstance

LONGEST_RESEND_SECONDS = 60.0
# Errors of a deferred command that a repetition does not mend: the host has newer commands for the guest, or cannot do
# it.
FOR_GOOD = frozenset(error.__name__ for error in (StaleToken, NotFound, NotSupported, Invalid))
_INSTANCE = "body__body__instance_uuid"
# Destroying a guest ends other commands for it, but not those for disks that were kept for a revert.
_ENDED_BY = {"revert_migration": "confirm_migration", "confirm_migration": ""}
NEVER_SECONDS = 10 * 365 * 86_400.0


@dataclass(frozen=True, kw_only=True)
class NewRun:
    """A run to create: its flow, its owner, and every resource that it locks.

    Attributes:
        run_uuid: Given where repeated calls must open only one run.
        parent_uuid: The run that hands over.
        is_cancellable: Applies until the run's plan sets it for each step.
        secrets: Inputs that no page, log or event may show. They are stored encrypted, and deleted when the run ends.
    """

    flow: str
    action: str
    context: RequestContext
    resources: Iterable[str]
    instance_uuid: UUID | str | None = None
    instance_name: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    secrets: Mapping[str, Any] = field(default_factory=dict)
    parent_uuid: UUID | str | None = None
    run_uuid: UUID | str | None = None
    is_cancellable: bool = True


def open_run(alias: str, wanted: NewRun, *, may_wait: bool = False) -> WorkflowRun:
    """Create a run, lock all its resources, and notify its conductor once the transaction commits.

    Call it inside `write_tx(alias)`.

    Raises:
        ResourceLocked: a resource is locked and the run may not wait for it; the error names the holder.
    """
    (run,) = open_runs(alias, [wanted], may_wait=may_wait)
    return run


def open_runs(alias: str, wanted: Sequence[NewRun], *, may_wait: bool = False) -> list[WorkflowRun]:
    """Create runs as `open_run` does. A set costs little more than one run, as long as none of their resources is
    locked.
    """
    runs = [_new_run(alias, one) for one in wanted]
    statements.create_runs(connections[alias], runs)
    are_free = locks.take_free(alias, runs)
    for run in runs:
        resources = run.resources or ()
        if are_free or locks.take(alias, run, resources, may_wait=may_wait):
            _emit(alias, run, "run.queued")
            notify_after_commit(alias, run.uuid)
        else:
            waits_for = {"cause": WaitCause.LOCK, "detail": ", ".join(resources)}
            _update(alias, run, waits_for=waits_for, wake_at=SecondsFromNow(NEVER_SECONDS))
            _emit(alias, run, "run.queued", {"waits_for": waits_for})
    return runs


def _new_run(alias: str, wanted: NewRun) -> WorkflowRun:
    context = wanted.context
    return WorkflowRun(
        uuid=UUID(str(wanted.run_uuid)) if wanted.run_uuid else new_run_uuid(),
        flow=wanted.flow,
        action=wanted.action,
        queue=queue_of(alias),
        instance_uuid=wanted.instance_uuid,
        instance_name=wanted.instance_name,
        parent_uuid=wanted.parent_uuid,
        project_id=context.project_id,
        user_id=context.user_id,
        user_name=context.user_name,
        request_id=context.request_id,
        context=context.to_json(),
        inputs=dict(wanted.inputs),
        secrets=sealing.seal(wanted.secrets),
        resources=sorted(set(wanted.resources)),
        is_cancellable=wanted.is_cancellable,
    )


def close_run(alias: str, run: WorkflowRun) -> None:
    """Release the locks of a run that has ended, and wake the runs that wait for them. Call it inside
    `write_tx(alias)`.
    """
    _wake_all(alias, locks.free(alias, run))
    if locks.cross_database(alias, run.resources or ()):
        # If the API database does not answer now, the run still ends, and the sweep releases the locks.
        with suppress(OperationalError, InterfaceError):
            granted_at = locks.granted_last(run.uuid)
            transaction.on_commit(
                partial(locks.free_cross_database_until, run.uuid, granted_at), using=alias, robust=True
            )
    if run.secrets:
        _update(alias, run, secrets={})


def hand_over_locks(alias: str) -> int:
    """Wake runs that wait for free locks. Return how many.

    A safety net: while a run records that it waits, another run may take and release the same lock, and neither sees
    the other.
    """
    connection = connections[alias]
    if not statements.runs_in_queues(connection):  # the typical case, which needs no write
        return 0
    with write_tx(alias):
        return _wake_all(alias, locks.hand_over(alias, statements.runs_in_queues(connection)))


def _wake_all(alias: str, waiters: list[WorkflowRun]) -> int:
    for waiter in waiters:
        _update(alias, waiter, waits_for=None, wake_at=NOW)
        notify_after_commit(alias, waiter.uuid)
    return len(waiters)


def request_cancel(alias: str, run: WorkflowRun, reason: str) -> None:
    """Request that a live run stops at its next boundary and compensates its steps. Call it inside
    `write_tx(alias)`.
    """
    _update(alias, run, is_cancel_requested=True, cancel_reason=reason)
    _emit(alias, run, "run.cancel_requested", {"reason": reason})
    wake(alias, run.uuid)


def hold(alias: str, **which: Any) -> list[WorkflowRun]:
    """Return the runs of this query, locked until this transaction ends. Call it inside `write_tx(alias)`.

    A conductor's transactions begin by locking their run too. So its writes are visible here, or come after.
    """
    return list(WorkflowRun.objects.using(alias).filter(**which).order_by("pk").select_for_update())


def wake(alias: str, run_uuid: UUID | str) -> None:
    """Notify a conductor of a run that may be parked. A run that waits for a lock stays in its queue."""
    live = WorkflowRun.objects.using(alias).live().filter(uuid=run_uuid)
    live.exclude(state=RunState.QUEUED, waits_for__isnull=False).update(wake_at=database_now())
    notify_after_commit(alias, run_uuid)


def wake_waiting_for(alias: str, cause: WaitCause) -> None:
    """Wake all runs that wait for `cause`. Call it inside `write_tx(alias)`."""
    waiting = WorkflowRun.objects.using(alias).filter(state=RunState.WAITING, waits_for__cause=cause)
    for run_uuid in waiting.values_list("uuid", flat=True):
        wake(alias, run_uuid)


def notify_after_commit(alias: str, run_uuid: UUID | str) -> None:
    """Notify the conductor of `alias` about a run once the transaction commits."""
    body = {"alias": alias, "run_uuid": str(run_uuid)}
    transaction.on_commit(partial(broker.notify_conductor, queue_of(alias), body), using=alias)


def send_command(alias: str, command: Any, *, run_uuid: UUID | str, is_deferred: bool = False) -> None:
    """Put a command for a host (a message of rpc.messages.to_compute) into the outbox. It is sent after the commit.

    Where the host has not answered a deferred command about the same instance, that one is sent again instead, and this
    one follows once it is answered.

    Raises:
        HostTooOld: the host's agent does not know the command.
    """
    body, queue = encode(command), broker.compute_queue(command.host)
    reported = backports.for_host(alias, command.host, body)
    kept = sealing.seal_command(body)
    is_next = command.IS_URGENT or not statements.has_deferred(connections[alias], command.host, command.instance_uuid)
    statements.add_command(connections[alias], run_uuid, command, queue=queue, body=kept, is_deferred=is_deferred)
    if is_next:
        transaction.on_commit(partial(broker.send_to_compute, queue, reported), using=alias)
    else:
        _send_next(alias, command.host, command.instance_uuid)


def deferred_about(alias: str, instance_uuid: UUID | str) -> QuerySet[OutboxMessage]:
    """Return the deferred commands about an instance. Their hosts may still have its guest."""
    return OutboxMessage.objects.using(alias).filter(is_deferred=True, **{_INSTANCE: str(instance_uuid)})


def defer_destroy(alias: str, host: str, instance_uuid: UUID | str) -> None:
    """Send a host a deferred command to destroy a guest that does not belong there."""
    _defer(alias, DestroyInstance, host, instance_uuid)


def defer_removal_of_kept(alias: str, host: str, instance_uuid: UUID | str) -> None:
    """Send a host a deferred command to remove what it keeps of an instance for a revert."""
    _defer(alias, ConfirmMigration, host, instance_uuid)


def _defer(alias: str, kind: type[DestroyInstance | ConfirmMigration], host: str, instance_uuid: UUID | str) -> None:
    with write_tx(alias):
        if deferred_about(alias, instance_uuid).filter(host=host).exists():
            return
        run = WorkflowRun.objects.using(alias).create(
            flow="reap",
            action="reap",
            state=RunState.DONE,
            queue=queue_of(alias),
            instance_uuid=instance_uuid,
            project_id=system_context().project_id,
            user_id=system_context().user_id,
            request_id=system_context().request_id,
            wake_at=database_now(),
            created_at=database_now(),
            finished_at=database_now(),
        )
        grant = LeaseGrant.objects.using(alias).create(
            run=run, owner="reaper", reason="reap", granted_at=database_now()
        )
        command = kind(
            step_key=f"{run.uuid}:reap",
            fencing_token=grant.pk,
            run_uuid=str(run.uuid),
            cell=alias,
            host=host,
            instance_uuid=str(instance_uuid),
        )
        send_command(alias, command, run_uuid=run.uuid, is_deferred=True)


def resend_due(alias: str, limit: int = 200) -> int:
    """Send unanswered commands again, each time after a longer delay. Return how many.

    While the broker is down none is sent, so that none waits for a long delay once the broker is back.
    """
    if broker.outage.is_on:
        return 0
    if not statements.has_commands_due(connections[alias]):  # the typical case, which needs no write
        return 0
    due = OutboxMessage.objects.using(alias).filter(send_again_at__lte=database_now()).order_by("send_again_at")
    with write_tx(alias):
        messages = list(due[:limit])
        held_back = _held_back(alias, messages)
        for message in messages:
            if message.pk in held_back:
                changed: dict[str, Any] = {"send_again_at": SecondsFromNow(FIRST_RESEND_SECONDS)}
            else:
                changed = {"send_again_at": _later(message), "times_sent": message.times_sent + 1}
            statements.COMMANDS.update(connections[alias], message.pk, **changed)
    for message in messages:
        if message.pk not in held_back:
            _resend(alias, message)
    return len(messages) - len(held_back)


def _held_back(alias: str, messages: Sequence[OutboxMessage]) -> set[int]:
    """Return the ids of those of these commands that come after a deferred one about the same instance."""
    hosts = {message.host for message in messages}
    deferred = OutboxMessage.objects.using(alias).filter(is_deferred=True, host__in=hosts)
    first: dict[tuple[str, str], int] = {}
    for pk, host, instance_uuid in deferred.order_by("pk").values_list("pk", "host", _INSTANCE):
        first.setdefault((host, instance_uuid), pk)
    return {
        message.pk
        for message in messages
        if first.get((message.host, message.body["body"]["instance_uuid"]), message.pk) < message.pk
        and not _is_urgent(message)
    }


def _is_urgent(message: OutboxMessage) -> bool:
    return bool(registered()[message.body["message"]][0].IS_URGENT)


def _send_next(alias: str, host: str, instance_uuid: str) -> None:
    """Send the next commands about an instance to a host, up to the first deferred one. Call it inside
    `write_tx(alias)`.
    """
    waiting = OutboxMessage.objects.using(alias).filter(host=host, **{_INSTANCE: instance_uuid})
    for message in waiting.order_by("pk"):
        sent_again = {"send_again_at": _later(message), "times_sent": message.times_sent + 1}
        statements.COMMANDS.update(connections[alias], message.pk, **sent_again)
        # otherwise a later sweep sends it
        transaction.on_commit(partial(_resend, alias, message), using=alias, robust=True)
        if message.is_deferred:
            return


def _later(message: OutboxMessage) -> SecondsFromNow:
    return SecondsFromNow(min(FIRST_RESEND_SECONDS * 2 ** min(message.times_sent, 16), LONGEST_RESEND_SECONDS))


def answered(alias: str, step_key: str, error: Mapping[str, Any] | None) -> bool:
    """Delete a command that its host has answered from the outbox. Call it inside `write_tx(alias)`.

    A deferred command that failed is sent again under another key, until the host has carried it out. Then the next
    command about the same instance is sent.

    Returns:
        Whether it was a deferred command that succeeded.
    """
    if error is not None:
        redeliver(alias, step_key, error)
    freed = statements.drop_command(connections[alias], step_key)
    if freed is not None and statements.has_command(connections[alias], *freed):
        _send_next(alias, *freed)
    return freed is not None


def redeliver(alias: str, step_key: str, error: Mapping[str, Any]) -> None:
    """Send a deferred command that failed again, under another key. Call it inside `write_tx(alias)`.

    No run waits for the command, but until it succeeds its guest may still write to its disks. It is given up only if a
    later command destroys its subject.
    """
    sent = statements.LOCKED_COMMANDS.find(connections[alias], step_key)
    if sent is None or not sent.is_deferred or error["class"] in FOR_GOOD or _is_pointless(alias, sent):
        return
    first_key, _, number = step_key.partition(":again-")
    key = f"{first_key}:again-{int(number or 0) + 1}"  # the host has stored its answer to the old key
    body = {**sent.body, "body": {**sent.body["body"], "step_key": key}}
    statements.COMMANDS.update(connections[alias], sent.pk, step_key=key, body=body, send_again_at=_later(sent))
    run = statements.RUNS_BY_UUID.get(connections[alias], sent.run_uuid)
    _emit(alias, run, "run.cleanup_retried", {"host": sent.host, "error": dict(error)})


def _is_pointless(alias: str, sent: OutboxMessage) -> bool:
    """Whether a later command for the host makes this one pointless."""
    ends = _ENDED_BY.get(sent.body["message"], "destroy_instance")
    later = OutboxMessage.objects.using(alias).filter(pk__gt=sent.pk, host=sent.host)
    of_instance = later.filter(**{_INSTANCE: sent.body["body"]["instance_uuid"]})
    return of_instance.filter(body__message=ends).exists()


def _resend(alias: str, message: OutboxMessage) -> None:
    """Send a command in the form that the host knows now.

    A host that was taken back to an older version gets an unknown command, and ignores it. It is sent again later.
    """
    whole = sealing.unseal_command(message.body)
    try:
        body: Mapping[str, Any] = backports.for_host(alias, message.host, whole)
    except backports.HostTooOld:
        body = whole
    broker.send_to_compute(message.queue, body)


def send_all_again(alias: str) -> None:
    """Make every unanswered command due, because an in-memory queue is lost with its process."""
    with write_tx(alias):
        OutboxMessage.objects.using(alias).update(send_again_at=database_now(), times_sent=1)


def _update(alias: str, run: WorkflowRun, **values: Any) -> None:
    statements.save_run(connections[alias], run.pk, values)


def _emit(alias: str, run: WorkflowRun, kind: str, data: Mapping[str, Any] | None = None) -> None:
    events.append(alias, events.about_run(run), kind, data)
