"""The dramatiq broker and the product's actors, for conductors, compute agents and schedulers.

A message is only a notification: it may be lost, doubled, late or reordered without harm, because the work is the row
that it refers to. The operator chooses the broker; only this module and `senders` depend on it. A message is sent in a
signed envelope (`_send`) and verified before its handler runs (`message_actor`), because the broker is not trusted.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

# Read by dramatiq when it is imported: milliseconds before a consumer that lost its broker reconnects.
os.environ.setdefault("dramatiq_restart_delay", "500")

import dramatiq
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, InterfaceError, close_old_connections
from django.utils.module_loading import import_string
from dramatiq import Broker, Worker
from dramatiq.common import dq_name, xq_name
from dramatiq.middleware import CurrentMessage, Middleware, ShutdownNotifications

from conductor.core.errors import Unavailable
from conductor.rpc import envelope, keys, trust
from conductor.rpc.codec import encode
from conductor.rpc.message_faults import Unreliable
from conductor.rpc.senders import AtOnce, Outage, Publisher, Sender

COMPUTE_QUEUE = "compute"
CONDUCTOR_QUEUE = "conductor"
SCHEDULER_QUEUE = "scheduler"
PUT_BACK_MILLISECONDS = 5_000
# A worker's thread notices within this time that it should stop.
IDLE_MILLISECONDS = 100

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _BrokerSetup:
    """A kind of broker: its class, its options, and defaults for parameters of the operator's URL."""

    path: str
    options: Mapping[str, Any] = field(default_factory=dict)
    url_defaults: Mapping[str, str] = field(default_factory=dict)
    tend: Callable[[Any], object] = lambda broker: None
    expect: Callable[[Any, str], object] = lambda broker, queue: None
    together: Callable[[Any], AbstractContextManager[None]] = lambda broker: nullcontext()
    forget: Callable[[Any, str], object] = lambda broker, queue: broker.flush(queue)


def _tend_rabbitmq(broker: Any) -> None:
    """Answer the server's heartbeats; notice its failure and its return."""
    if not broker.connection.is_open:
        del broker.connection
    broker.connection.process_data_events(0)


def _expect_rabbitmq(broker: Any, queue: str) -> None:
    """Assume that the queue exists. The process that reads the queue declares it; the account of an agent may not."""
    broker.queues.add(queue)


def _forget_rabbitmq(broker: Any, queue: str) -> None:
    """Delete the queue. Queues persist, so each removed host would leave one."""
    with broker.connection.channel() as channel:
        for name in (queue, dq_name(queue), xq_name(queue)):
            channel.queue_delete(queue=name)
    broker.queues.discard(queue)
    broker.queues_pending.discard(queue)


_RABBITMQ = _BrokerSetup(
    "dramatiq.brokers.rabbitmq.RabbitmqBroker",
    url_defaults={"heartbeat": "30", "socket_timeout": "3", "stack_timeout": "5", "blocked_connection_timeout": "5"},
    tend=_tend_rabbitmq,
    expect=_expect_rabbitmq,
    forget=_forget_rabbitmq,
)
_REDIS = _BrokerSetup(
    "conductor.rpc.redis_broker.LeanRedisBroker",
    # Messages that a dead process had taken go to other processes at their first look after this. The default may take
    # hours.
    options={"heartbeat_timeout": 10_000, "maintenance_chance": 1_000_000},
    url_defaults={"socket_connect_timeout": "3", "socket_timeout": "10", "socket_keepalive": "yes"},
    tend=lambda broker: broker.client.ping(),
    together=lambda broker: broker.together(),
)
KINDS: Mapping[str, _BrokerSetup] = {"amqp": _RABBITMQ, "amqps": _RABBITMQ, "redis": _REDIS, "rediss": _REDIS}


class DatabaseConnections(Middleware):
    """Closes dead database connections of a worker thread before and after each message, as the thread is
    long-lived.
    """

    def before_process_message(self, broker: Broker, message: Any) -> None:
        close_old_connections()

    def after_process_message(self, broker: Broker, message: Any, **outcome: Any) -> None:
        close_old_connections()

    after_skip_message = after_process_message


def make(url: str) -> tuple[Broker, Sender]:
    """Return the broker at `url` (empty: in this process's memory), and its sender."""
    # No middleware that retries or interrupts: the rows repeat messages, and leases limit the time.
    middleware = [CurrentMessage(), ShutdownNotifications(), DatabaseConnections()]
    if not url:
        stub = import_string("dramatiq.brokers.stub.StubBroker")(middleware=middleware)
        stub.fail_fast_default = False
        return stub, AtOnce(stub)
    kind = KINDS[urlsplit(url).scheme]
    remote = import_string(kind.path)(url=_with_defaults(url, kind.url_defaults), middleware=middleware, **kind.options)
    return remote, Publisher(remote, kind, outage)


def _with_defaults(url: str, defaults: Mapping[str, str]) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(query=urlencode({**defaults, **dict(parse_qsl(parts.query))})))


def _chosen() -> str:
    try:
        return str(settings.NOVELLA_BROKER_URL)
    except ImproperlyConfigured:  # no Django here
        return ""


def _chosen_faults() -> Mapping[str, float]:
    try:
        chosen: Any = settings.NOVELLA_MESSAGE_FAULTS
    except ImproperlyConfigured:
        return {}
    return dict(chosen or {})


@dataclass(frozen=True)
class Transport:
    """A broker and the sender of messages to it."""

    broker: Broker
    sender: Sender


outage = Outage()
_transport: Transport | None = None
_making = threading.Lock()


def transport() -> Transport:
    """Return the transport of this process. The first call makes it, as the settings say."""
    global _transport
    with _making:
        if _transport is None:
            broker, sender = make(_chosen())
            if faults := _chosen_faults():
                sender = Unreliable(sender, faults)
            dramatiq.set_broker(broker)
            _transport = Transport(broker, sender)
        return _transport


Handler = Callable[[trust.AuthenticatedMessage], None]
Actor = dramatiq.Actor[[dict[str, Any]], None]


def message_actor(name: str, queue: str) -> Callable[[Handler], Actor]:
    """Return an actor that takes an envelope and calls the handler with its content, once every check has passed."""

    def register(handler: Handler) -> Actor:
        def receive(wire: dict[str, Any]) -> None:
            try:
                received = trust.opened(name, wire)
            except trust.UnknownKind:
                if name == trust.TO_CONDUCTOR:
                    put_back()  # newer than this process: must not be dropped
            except envelope.Refused as refused:
                trust.report(refused)
            else:
                handler(received)

        receive.__doc__ = handler.__doc__
        return as_actor(receive)

    as_actor = dramatiq.actor(actor_name=name, queue_name=queue, broker=transport().broker)
    return register


def make_worker(queues: Iterable[str], *, threads: int, prefetch: int) -> Worker:
    """Return a worker on `queues`, not started yet. It holds at most `prefetch` messages of each queue."""
    broker, names = transport().broker, set(queues)
    for name in names:
        broker.declare_queue(name)
        for consumer in (name, dq_name(name)):
            logging.getLogger(f"dramatiq.worker.ConsumerThread({consumer})").addFilter(_say_once)
    worker = Worker(broker, queues=names, worker_threads=threads, worker_timeout=IDLE_MILLISECONDS)
    worker.queue_prefetch = prefetch
    return worker


def compute_queue(host: str) -> str:
    """Return the queue of a host's commands. By the settings all hosts of a process share one, or each host has its
    own.
    """
    shares = settings.NOVELLA_COMPUTE_QUEUES == "shared"
    return COMPUTE_QUEUE if shares else f"{COMPUTE_QUEUE}.{host}"


def notify_conductor(queue: str, body: Mapping[str, Any]) -> None:
    """Notify a conductor. `{"alias", "run_uuid"}` lets it look at this run."""
    signer = _conductor_signer()
    if signer is not None:
        _send(trust.NOTIFICATION, queue, signer.seal(trust.NOTIFICATION, queue, body))


def send_to_conductor(cell: str, body: Any) -> None:
    """Send a message (a dataclass of rpc.messages.to_conductor) to the conductor of `cell`, as the host that it names.

    Raises NotFound for a host that has no identity here.
    """
    queue, sentence = f"{CONDUCTOR_QUEUE}.{cell}", {"cell": cell, **encode(body)}
    signer = keys.signer_of_host(body.host)
    _send(trust.TO_CONDUCTOR, queue, signer.seal(sentence["message"], queue, sentence))


def send_to_compute(queue: str, body: Mapping[str, Any], *, known_to_host: Iterable[str] | None = None) -> None:
    """Send an encoded command to the queue of a compute agent.

    It is signed with one of the keys in `known_to_host`, where these are given.
    """
    signer = _conductor_signer(known_to_host)
    if signer is not None:
        recipient = envelope.host_sender(body["body"]["host"])
        _send(trust.TO_COMPUTE, queue, signer.seal(body["message"], recipient, body))


def scheduler_queue(name: str) -> str:
    """Return the queue of a scheduler's calls."""
    return f"{SCHEDULER_QUEUE}.{name}"


def call_scheduler(body: Any) -> None:
    """Send a call (rpc.messages.to_scheduler) to the scheduler that it names."""
    signer, queue, sentence = _conductor_signer(), scheduler_queue(body.scheduler), encode(body)
    if signer is not None:
        _send(trust.TO_SCHEDULER, queue, signer.seal(sentence["message"], queue, sentence))


def reply_to_conductor(queue: str, cell: str, body: Any) -> None:
    """Send a message of a scheduler to the conductors of a queue. `cell` names the journal that the message is
    about.
    """
    signer, sentence = _conductor_signer(), {"cell": cell, **encode(body)}
    if signer is not None:
        own = replace(signer, sender=envelope.SCHEDULER)
        _send(trust.TO_CONDUCTOR, queue, own.seal(sentence["message"], queue, sentence))


def _conductor_signer(known_to_host: Iterable[str] | None = None) -> envelope.Signer | None:
    """Return the signer. None where no key could be read yet; the message then counts as one that the broker lost."""
    try:
        return keys.authority().signer(known_to_host)
    except (DatabaseError, InterfaceError, Unavailable) as error:
        log.error("message not sent, there is no key to sign it: %s: %s", type(error).__name__, error)
        return None


def forget_host(host: str) -> None:
    """Delete the queue of a removed host, with its content. A host that comes back creates a new one."""
    if settings.NOVELLA_COMPUTE_QUEUES != "shared":
        transport().sender.forget(compute_queue(host))


def put_back() -> None:
    """Queue the message of this thread once more, for a process that understands it."""
    message = CurrentMessage.get_current_message()
    if message is not None:
        log.warning("message put back: %s", message.args[0].get("kind", message.actor_name))
        trust.take_back(message.args[0])
        transport().sender.send(message.copy(), PUT_BACK_MILLISECONDS)


def drain(seconds: float) -> bool:
    """Wait, before a process ends, until all messages are sent. False when that takes longer."""
    return transport().sender.drain(seconds)


def _send(actor_name: str, queue: str, sealed: dict[str, Any]) -> None:
    message: Any = dramatiq.Message(queue_name=queue, actor_name=actor_name, args=(sealed,), kwargs={}, options={})
    transport().sender.send(message)


def _say_once(record: logging.LogRecord) -> bool:
    """Filter the log of dramatiq's consumers, which repeat themselves for as long as the broker is down."""
    if "connection error" not in str(record.msg):
        return True
    outage.begun("connection lost")
    return False
