"""E-mail notifications: a few lines to the address of a user's account, through the operator's mail server."""

from __future__ import annotations

import smtplib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.core.mail import EmailMessage
from django.core.mail.backends.smtp import EmailBackend

from conductor.core.errors import Unavailable
from conductor.core.messages import message
from conductor.core.notification_sink import Notification, Send, SinkFailed
from conductor.identity.models import User
from conductor.services.notifications.chats import line_of

TIMEOUT_SECONDS = 5.0
LONGEST_SUBJECT = 200
PORTS: Mapping[str, int] = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}
NO_SERVER = message("mail.no_server")
NO_ADDRESS = message("mail.no_address")


def address_of(user_id: str) -> str:
    """Return a user's address for mail: the account's, which only administrators change. Raises Unavailable."""
    if not settings.NOVELLA_SMTP_URL:
        raise Unavailable(NO_SERVER)
    address = User.objects.filter(pk=user_id).values_list("email", flat=True).first()
    if not address:
        raise Unavailable(NO_ADDRESS)
    return address


@dataclass(frozen=True)
class MailSink:
    """Sink that sends each message to one user. A refusal by the server is a failure."""

    address: str
    subscription: str  # the name that its owner gave it
    name: str

    @contextmanager
    def open(self) -> Iterator[Send]:
        server = _server(settings.NOVELLA_SMTP_URL)

        def send(message: Notification) -> str:
            try:
                server.send_messages([self._mail(message)])
            except (OSError, smtplib.SMTPException) as error:
                _hang_up(server)
                raise SinkFailed(_why(error)) from None
            return "accepted"

        try:
            yield send
        finally:
            _hang_up(server)

    def _mail(self, message: Notification) -> EmailMessage:
        reported = line_of(message)
        data = message.body["payload"]["data"]
        facts = {
            "Event": message.event_type,
            "Time": message.body["timestamp"],
            "Server": (data.get("instance") or {}).get("uuid"),
            "Workflow": (data.get("workflow") or {}).get("uuid"),
        }
        lines = [f"{name}: {value}" for name, value in facts.items() if value]
        end = f"This message comes from your subscription {self.subscription}. In the portal you can change or end it."
        return EmailMessage(
            subject=reported[:LONGEST_SUBJECT],
            body="\n".join([reported, "", *lines, "", end, ""]),
            from_email=settings.NOVELLA_MAIL_FROM,
            to=[self.address],
            # The id stays the same when a message is sent again; and no automatic replies.
            headers={"Message-ID": f"<{message.message_id}@novella>", "Auto-Submitted": "auto-generated"},
        )


def _server(url: str) -> EmailBackend:
    parts = urlsplit(url)
    return EmailBackend(
        host=parts.hostname,
        port=parts.port or PORTS[parts.scheme],
        username=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        use_tls=parts.scheme == "smtp+starttls",
        use_ssl=parts.scheme == "smtps",
        timeout=TIMEOUT_SECONDS,
    )


def _hang_up(server: EmailBackend) -> None:
    with suppress(OSError, smtplib.SMTPException):
        server.close()


def _why(error: Exception) -> str:
    """Describe an error by the server's status code only: its text may quote confidential data."""
    codes = [code for code, _ in error.recipients.values()] if isinstance(error, smtplib.SMTPRecipientsRefused) else []
    code = getattr(error, "smtp_code", codes[0] if codes else None)
    return f"answered {code}" if code else type(error).__name__
