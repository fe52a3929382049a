"""What leaves with a transaction: new runs and their doorbells, commands to hosts, wake-ups and cancels.

A command that nobody waits for any more, because its host was silent, is deferred: it is sent until the host has done
it. Commands of one instance to one host leave in order: while a deferred one is not answered, those after it wait in
the outbox. So a host never refuses the earlier of two as out of date, and never gets them the wrong way round. The
order is asked for each time that a command is about to leave, so there is no state that a crash could leave behind.
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
from conductor.core.run_uuids import new_run_uuid
from conductor.core.states import RunState, WaitCause
from conductor.journal import checkpoints, foreign_locks, locks, sealing, sweeps
from conductor.journal.checkpoints import FIRST_RESEND_SECONDS
from conductor.journal.models import LeaseGrant, OutboxMessage, WorkflowRun
from conductor.rpc import backports, broker
from conductor.rpc.codec import encode, registered
from conductor.rpc.messages import ConfirmMigration, DestroyInstance
from conductor.sql.dialect import NOW, Later
from conductor.transactions import database_now, write_tx

LONGEST_RESEND_SECONDS = 60.0
# Of a deferred command no repetition mends these: the host has newer orders about the guest, or cannot do it at all.
FOR_GOOD = frozenset(error.__name__ for error in (StaleToken, NotFound, NotSupported, Invalid))
_INSTANCE = "body__body__instance_uuid"
# A guest's end ends what a command does to the guest, but not what was kept of it for going back.
_ENDED_BY = {"revert_migration": "confirm_migration", "confirm_migration": ""}
NEVER_SECONDS = 10 * 365 * 86_400.0


@dataclass(frozen=True, kw_only=True)
class NewRun:
    """A run to be: what it does, for whom, and every resource that it touches.

    `run_uuid` may be given where asking twice must open one run only; `parent_uuid` names the run that hands over.
    `is_cancellable` speaks for the time before the run's plan says so for each step.
    `secrets` are inputs that no page, log or event may show; they are kept encrypted, and gone when the run ends.
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
    """Create a run, lock all that it touches, and ring its conductor once the transaction commits.

    Call it inside `write_tx(alias)`. Raises ResourceLocked, naming the holder, when a resource is under work and
    the run may not wait for it.
    """
    context, resources = wanted.context, sorted(set(wanted.resources))
    made = WorkflowRun(
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
        resources=resources,
        is_cancellable=wanted.is_cancellable,
    )
    run = checkpoints.create_run(connections[alias], made)
    if locks.take(alias, run, resources, may_wait=may_wait):
        _tell(alias, run, "run.queued")
        ring_after_commit(alias, run.uuid)
    else:
        waits_for = {"cause": WaitCause.LOCK, "detail": ", ".join(resources)}
        _update(alias, run, waits_for=waits_for, wake_at=Later(NEVER_SECONDS))
        _tell(alias, run, "run.queued", {"waits_for": waits_for})
    return run


def close_run(alias: str, run: WorkflowRun) -> None:
    """Free the locks of a run that has ended, and wake the runs that waited for them; inside `write_tx(alias)`."""
    _wake_all(alias, locks.free(alias, run))
    if foreign_locks.foreign(alias, run.resources or ()):
        # Where the API database does not answer now, the run ends all the same, and the sweep frees them.
        with suppress(OperationalError, InterfaceError):
            granted_at = foreign_locks.granted_last(run.uuid)
            transaction.on_commit(partial(foreign_locks.free_until, run.uuid, granted_at), using=alias, robust=True)
    if run.secrets:
        _update(alias, run, secrets={})


def hand_over_locks(alias: str) -> int:
    """Wake runs that wait for locks which nobody holds; returns how many.

    The net: while a run writes down that it waits, another may take and free what it waits for, and neither sees the
    other.
    """
    connection = connections[alias]
    if not sweeps.runs_in_queues(connection):  # the usual answer, which needs no write
        return 0
    with write_tx(alias):
        return _wake_all(alias, locks.hand_over(alias, sweeps.runs_in_queues(connection)))


def _wake_all(alias: str, waiters: list[WorkflowRun]) -> int:
    for waiter in waiters:
        _update(alias, waiter, waits_for=None, wake_at=NOW)
        ring_after_commit(alias, waiter.uuid)
    return len(waiters)


def request_cancel(alias: str, run: WorkflowRun, reason: str) -> None:
    """Ask a live run to stop at its next boundary and undo what it did; inside `write_tx(alias)`."""
    _update(alias, run, is_cancel_requested=True, cancel_reason=reason)
    _tell(alias, run, "run.cancel_requested", {"reason": reason})
    wake(alias, run.uuid)


def hold(alias: str, **which: Any) -> list[WorkflowRun]:
    """The runs that these fields name, as they are and stay until this transaction ends; inside `write_tx(alias)`.

    A conductor's transactions begin by holding their run too. So what it writes is there to be read, or comes after.
    """
    return list(WorkflowRun.objects.using(alias).filter(**which).order_by("pk").select_for_update())


def wake(alias: str, run_uuid: UUID | str) -> None:
    """Have a conductor look at a run that may be parked; one that waits for a lock stays in its queue."""
    live = WorkflowRun.objects.using(alias).live().filter(uuid=run_uuid)
    live.exclude(state=RunState.QUEUED, waits_for__isnull=False).update(wake_at=database_now())
    ring_after_commit(alias, run_uuid)


def ring_after_commit(alias: str, run_uuid: UUID | str) -> None:
    """Ring the conductor of `alias` for a run once the transaction commits."""
    body = {"alias": alias, "run_uuid": str(run_uuid)}
    transaction.on_commit(partial(broker.ring, queue_of(alias), body), using=alias)


def send_command(alias: str, command: Any, *, run_uuid: UUID | str, is_owed: bool = False) -> None:
    """Put a command for a host (a message of rpc.messages.to_compute) into the outbox; sent after the commit.

    Where the host has not answered a deferred command about the same instance, that one is sent again instead, and
    this one follows once it is answered. Raises HostTooOld when the host's agent has no words for it.
    """
    body, queue = encode(command), broker.compute_queue(command.host)
    said = backports.for_host(alias, command.host, body)
    kept = sealing.seal_command(body)
    is_next = command.IS_URGENT or not checkpoints.has_deferred(connections[alias], command.host, command.instance_uuid)
    checkpoints.add_command(connections[alias], run_uuid, command, queue=queue, body=kept, is_owed=is_owed)
    if is_next:
        transaction.on_commit(partial(broker.tell_compute, queue, said), using=alias)
    else:
        _send_next(alias, command.host, command.instance_uuid)


def owed_about(alias: str, instance_uuid: UUID | str) -> QuerySet[OutboxMessage]:
    """What hosts have not done yet about an instance, and nobody waits for: they may still have its guest."""
    return OutboxMessage.objects.using(alias).filter(is_owed=True, **{_INSTANCE: str(instance_uuid)})


def owe_destroy(alias: str, host: str, instance_uuid: UUID | str) -> None:
    """Tell a host to destroy a guest that does not belong there; repeated until it answers."""
    _defer(alias, DestroyInstance, host, instance_uuid)


def owe_removal_of_kept(alias: str, host: str, instance_uuid: UUID | str) -> None:
    """Have a host remove what it keeps of an instance for going back; repeated until it answers."""
    _defer(alias, ConfirmMigration, host, instance_uuid)


def _defer(alias: str, kind: type[DestroyInstance | ConfirmMigration], host: str, instance_uuid: UUID | str) -> None:
    with write_tx(alias):
        if owed_about(alias, instance_uuid).filter(host=host).exists():
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
        send_command(alias, command, run_uuid=run.uuid, is_owed=True)


def resend_due(alias: str, limit: int = 200) -> int:
    """Send unanswered commands again, each time after a longer while; returns how many."""
    if not sweeps.has_commands_due(connections[alias]):  # the usual answer, which needs no write
        return 0
    due = OutboxMessage.objects.using(alias).filter(send_again_at__lte=database_now()).order_by("send_again_at")
    with write_tx(alias):
        messages = list(due[:limit])
        held_back = _held_back(alias, messages)
        for message in messages:
            if message.pk in held_back:
                changed: dict[str, Any] = {"send_again_at": Later(FIRST_RESEND_SECONDS)}
            else:
                changed = {"send_again_at": _later(message), "times_sent": message.times_sent + 1}
            checkpoints.COMMANDS.update(connections[alias], message.pk, **changed)
    for message in messages:
        if message.pk not in held_back:
            _say_again(alias, message)
    return len(messages) - len(held_back)


def _held_back(alias: str, messages: Sequence[OutboxMessage]) -> set[int]:
    """Ids of those of these commands that come after a deferred one about their instance."""
    deferred = OutboxMessage.objects.using(alias).filter(is_owed=True, host__in={message.host for message in messages})
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
    """Send what is next about an instance at a host: all up to the first deferred command; inside `write_tx(alias)`."""
    waiting = OutboxMessage.objects.using(alias).filter(host=host, **{_INSTANCE: instance_uuid})
    for message in waiting.order_by("pk"):
        sent_again = {"send_again_at": _later(message), "times_sent": message.times_sent + 1}
        checkpoints.COMMANDS.update(connections[alias], message.pk, **sent_again)
        transaction.on_commit(partial(_say_again, alias, message), using=alias, robust=True)  # else it is sent later
        if message.is_owed:
            return


def _later(message: OutboxMessage) -> Later:
    return Later(min(FIRST_RESEND_SECONDS * 2 ** min(message.times_sent, 16), LONGEST_RESEND_SECONDS))


def answered(alias: str, step_key: str, error: Mapping[str, Any] | None) -> bool:
    """Take a command that its host has answered out of the outbox; inside `write_tx(alias)`.

    A deferred one that failed is sent again under another key, until the host has done it. After a deferred one that
    is out of the way, the next command about the same instance is sent.

    Returns:
        Whether it was a deferred one, and is out of the way.
    """
    if error is not None:
        redeliver(alias, step_key, error)
    freed = checkpoints.drop_command(connections[alias], step_key)
    if freed is not None:
        _send_next(alias, *freed)
    return freed is not None


def redeliver(alias: str, step_key: str, error: Mapping[str, Any]) -> None:
    """Send a deferred command that failed again, under another key; inside `write_tx(alias)`.

    Nobody waits for it, but much rests on it: what its guest may still write to is nobody else's. Only one is given up
    whose subject a later command ends: what it was to put in order goes with that.
    """
    sent = OutboxMessage.objects.using(alias).select_for_update().filter(step_key=step_key).first()
    if sent is None or not sent.is_owed or error["class"] in FOR_GOOD or _is_pointless(alias, sent):
        return
    first_key, _, number = step_key.partition(":again-")
    key = f"{first_key}:again-{int(number or 0) + 1}"  # for the old one the host has its answer
    body = {**sent.body, "body": {**sent.body["body"], "step_key": key}}
    checkpoints.COMMANDS.update(connections[alias], sent.pk, step_key=key, body=body, send_again_at=_later(sent))
    run = WorkflowRun.objects.using(alias).get(uuid=sent.run_uuid)
    _tell(alias, run, "run.still_owed", {"host": sent.host, "error": dict(error)})


def _is_pointless(alias: str, sent: OutboxMessage) -> bool:
    """Whether a later command for the host ends what this one is about."""
    ends = _ENDED_BY.get(sent.body["message"], "destroy_instance")
    later = OutboxMessage.objects.using(alias).filter(pk__gt=sent.pk, host=sent.host)
    of_instance = later.filter(**{_INSTANCE: sent.body["body"]["instance_uuid"]})
    return of_instance.filter(body__message=ends).exists()


def _say_again(alias: str, message: OutboxMessage) -> None:
    """As the host understands it now. One that was taken back to an older version gets what it does not know, and
    leaves it: it comes again."""
    whole = sealing.unseal_command(message.body)
    try:
        body: Mapping[str, Any] = backports.for_host(alias, message.host, whole)
    except backports.HostTooOld:
        body = whole
    broker.tell_compute(message.queue, body)


def send_all_again(alias: str) -> None:
    """Have every unanswered command be due: a queue in memory died with its process."""
    with write_tx(alias):
        OutboxMessage.objects.using(alias).update(send_again_at=database_now(), times_sent=1)


def _update(alias: str, run: WorkflowRun, **values: Any) -> None:
    checkpoints.save(connections[alias], run.pk, values)


def _tell(alias: str, run: WorkflowRun, kind: str, data: Mapping[str, Any] | None = None) -> None:
    events.append(alias, events.about_run(run), kind, data)
