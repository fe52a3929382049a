"""Where notifications go: webhooks, a topic exchange of RabbitMQ, plugins. A sink fails by raising SinkFailed."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

from django.conf import settings

from conductor.core.notification_sink import Notification, Send, SinkFailed
from conductor.services.notifications import plugin_sinks, targets

TIMEOUT_SECONDS = 5.0
LONGEST_SECONDS = 10.0  # for a whole answer of a target that somebody named
EXCHANGE = "novella.notifications"
SIGNATURE = "Novella-Signature"


class Sink(Protocol):
    """`name` is kept in databases and logs: it holds no secret of the sink's address."""

    @property
    def name(self) -> str: ...

    def open(self) -> AbstractContextManager[Send]:
        """A connection for some messages: a function that sends one and says how it was taken."""


@dataclass(frozen=True)
class Webhook:
    """POSTs each message, signed; whatever is not 2xx is a failure. Redirects are not followed.

    `is_guarded` is set for targets that people name: they reach nothing private, and must answer in time as a whole.
    `said` makes the body for receivers that take another one than ours; without a secret nothing is signed.
    """

    url: str = field(repr=False)
    secret: str = field(repr=False)
    is_guarded: bool = False
    given_name: str = ""
    said: Callable[[Notification], Mapping[str, Any]] | None = None

    @property
    def name(self) -> str:
        if self.given_name:
            return self.given_name
        return f"webhook {urlsplit(self.url).hostname} {hashlib.sha256(self.url.encode()).hexdigest()[:8]}"

    @contextmanager
    def open(self) -> Iterator[Send]:
        parts = urlsplit(self.url)
        connection = targets.connection(self.url, TIMEOUT_SECONDS, is_guarded=self.is_guarded)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

        def send(message: Notification) -> str:
            body = encoded(self.said(message) if self.said is not None else message.body)
            try:
                with self._in_time(connection):
                    connection.request("POST", path, body, headers(message, body, self.secret))
                    answer = connection.getresponse()
                    answer.read(64_000)
            except (OSError, ValueError, http.client.HTTPException) as error:
                connection.close()
                raise SinkFailed(type(error).__name__) from None
            if not 200 <= answer.status < 300:
                connection.close()
                raise SinkFailed(f"answered {answer.status}")
            return f"answered {answer.status}"

        try:
            yield send
        finally:
            connection.close()

    @contextmanager
    def _in_time(self, connection: http.client.HTTPConnection) -> Iterator[None]:
        """A server that answers a byte at a time is in time with each: cut off what takes too long as a whole."""
        if not self.is_guarded:
            yield
            return
        watch = threading.Timer(LONGEST_SECONDS, _cut, (connection,))
        watch.daemon = True
        watch.start()
        try:
            yield
        finally:
            watch.cancel()


def _cut(connection: http.client.HTTPConnection) -> None:
    with suppress(OSError, AttributeError):  # it may have ended just now
        connection.sock.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True)
class Exchange:
    """Publishes to a durable topic exchange with the event type as routing key, and waits for the confirmation."""

    url: str = field(repr=False)
    name: str = "exchange"

    @contextmanager
    def open(self) -> Iterator[Send]:
        import pika  # only where an operator has named an exchange
        import pika.exceptions

        parameters = pika.URLParameters(self.url)
        parameters.socket_timeout = parameters.stack_timeout = parameters.blocked_connection_timeout = TIMEOUT_SECONDS
        connection = None
        try:
            connection = pika.BlockingConnection(parameters)
            channel = connection.channel()
            channel.exchange_declare(EXCHANGE, exchange_type="topic", durable=True)
            channel.confirm_delivery()
        except (pika.exceptions.AMQPError, OSError) as error:
            _close(connection)
            raise SinkFailed(type(error).__name__) from None

        def send(message: Notification) -> str:
            properties = pika.BasicProperties(
                content_type="application/json",
                delivery_mode=2,
                message_id=str(message.message_id),
                headers={"resource": message.resource},
            )
            try:
                channel.basic_publish(EXCHANGE, message.event_type, encoded(message.body), properties)
            except (pika.exceptions.AMQPError, OSError) as error:
                raise SinkFailed(type(error).__name__) from None
            return "confirmed"

        try:
            yield send
        finally:
            _close(connection)


def _close(connection: Any) -> None:
    import pika.exceptions

    try:
        if connection is not None and connection.is_open:
            connection.close()
    except (pika.exceptions.AMQPError, OSError):
        pass  # it is gone, which is what was wanted


def encoded(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":"), sort_keys=True).encode()


def headers(message: Notification, body: bytes, secret: str) -> dict[str, str]:
    """What goes with a webhook: who it is from, which message, and the proof that it is ours."""
    sent_at = str(int(time.time()))
    return {
        "Content-Type": "application/json",
        "User-Agent": "Novella",
        "Novella-Event": message.event_type,
        "Novella-Message": str(message.message_id),
        **({SIGNATURE: f"t={sent_at},v1={signature(secret, sent_at, body)}"} if secret else {}),
    }


def signature(secret: str, sent_at: str, body: bytes) -> str:
    """HMAC-SHA256 over time and body: a receiver refuses what is too old, so that nothing can be played again."""
    return hmac.new(secret.encode(), sent_at.encode() + b"." + body, hashlib.sha256).hexdigest()


def configured() -> list[Sink]:
    """The sinks that the settings name."""
    secret = settings.NOVELLA_NOTIFICATION_SECRET
    found: list[Sink] = [Webhook(url, secret) for url in settings.NOVELLA_NOTIFICATION_WEBHOOKS]
    if settings.NOVELLA_NOTIFICATION_URL:
        found.append(Exchange(settings.NOVELLA_NOTIFICATION_URL))
    return [*found, *plugin_sinks.enabled(settings.NOVELLA_NOTIFICATION_SINKS)]
