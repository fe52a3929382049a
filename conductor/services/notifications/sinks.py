"""Sinks of notifications: webhooks, a topic exchange of RabbitMQ, plugins. A sink fails by raising SinkFailed."""

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
LONGEST_SECONDS = 10.0  # for the whole response of a user's target
EXCHANGE = "novella.notifications"
SIGNATURE = "Novella-Signature"


class Sink(Protocol):
    """A target of notifications. `name` is stored in databases and logs: it holds no secret of the sink's address."""

    @property
    def name(self) -> str: ...

    def open(self) -> AbstractContextManager[Send]:
        """Open a connection for some messages: a function that sends one and returns the receiver's answer."""


@dataclass(frozen=True)
class Webhook:
    """Sink that POSTs each message, signed; any status but 2xx is a failure. Redirects are not followed.

    `is_guarded` is set for targets of users: private addresses are blocked, and the whole response has a time limit.
    `render_body` makes the body for receivers with another format than ours; without a secret messages are not signed.
    """

    url: str = field(repr=False)
    secret: str = field(repr=False)
    is_guarded: bool = False
    given_name: str = ""
    render_body: Callable[[Notification], Mapping[str, Any]] | None = None

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
            body = encoded(self.render_body(message) if self.render_body is not None else message.body)
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
        """Limit the time of the whole response: a server that sends byte by byte never exceeds the socket's timeout."""
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
class ExchangeSink:
    """Sink that publishes to a durable topic exchange, the event type as routing key, and waits for confirmation."""

    url: str = field(repr=False)
    name: str = "exchange"

    @contextmanager
    def open(self) -> Iterator[Send]:
        import pika  # imported only where an operator has configured an exchange
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
        pass  # it is closed already


def encoded(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":"), sort_keys=True).encode()


def headers(message: Notification, body: bytes, secret: str) -> dict[str, str]:
    """Return the headers of a webhook: sender, message id and signature."""
    sent_at = str(int(time.time()))
    return {
        "Content-Type": "application/json",
        "User-Agent": "Novella",
        "Novella-Event": message.event_type,
        "Novella-Message": str(message.message_id),
        **({SIGNATURE: f"t={sent_at},v1={signature(secret, sent_at, body)}"} if secret else {}),
    }


def signature(secret: str, sent_at: str, body: bytes) -> str:
    """Return the HMAC-SHA256 over time and body: a receiver rejects old ones, which prevents replays."""
    return hmac.new(secret.encode(), sent_at.encode() + b"." + body, hashlib.sha256).hexdigest()


def configured() -> list[Sink]:
    """Return the sinks in the settings."""
    secret = settings.NOVELLA_NOTIFICATION_SECRET
    found: list[Sink] = [Webhook(url, secret) for url in settings.NOVELLA_NOTIFICATION_WEBHOOKS]
    if settings.NOVELLA_NOTIFICATION_URL:
        found.append(ExchangeSink(settings.NOVELLA_NOTIFICATION_URL))
    return [*found, *plugin_sinks.enabled(settings.NOVELLA_NOTIFICATION_SINKS)]
