"""What mailboxes are told: a few lines to the address that a person's account has, by the operator's server."""

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
from conductor.core.notification_sink import Notification, Send, SinkFailed
from conductor.identity.models import User
from conductor.services.notifications.chats import line_of

TIMEOUT_SECONDS = 5.0
LONGEST_SUBJECT = 200
PORTS: Mapping[str, int] = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}
NO_SERVER = "This cloud sends no e-mail: its operator has not set NOVELLA_SMTP_URL."
NO_ADDRESS = "Your account has no e-mail address: an operator can give it one."


def address_of(user_id: str) -> str:
    """Where somebody's mail goes: to what their account says, which is not theirs to choose. Raises Unavailable."""
    if not settings.NOVELLA_SMTP_URL:
        raise Unavailable(NO_SERVER)
    address = User.objects.filter(pk=user_id).values_list("email", flat=True).first()
    if not address:
        raise Unavailable(NO_ADDRESS)
    return address


@dataclass(frozen=True)
class Mailbox:
    """Sends each message to one person; what the server does not take is a failure."""

    address: str
    subscription: str  # as its owner calls it
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
        said = line_of(message)
        data = message.body["payload"]["data"]
        facts = {
            "Event": message.event_type,
            "Time": message.body["timestamp"],
            "Server": (data.get("instance") or {}).get("uuid"),
            "Workflow": (data.get("workflow") or {}).get("uuid"),
        }
        lines = [f"{name}: {value}" for name, value in facts.items() if value]
        end = f"You are told by your subscription {self.subscription}. In the portal you can change or end it."
        return EmailMessage(
            subject=said[:LONGEST_SUBJECT],
            body="\n".join([said, "", *lines, "", end, ""]),
            from_email=settings.NOVELLA_MAIL_FROM,
            to=[self.address],
            # The same for one that comes again, and no answering machine answers.
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
    """By the server's number alone: its words may quote what is nobody's business."""
    codes = [code for code, _ in error.recipients.values()] if isinstance(error, smtplib.SMTPRecipientsRefused) else []
    code = getattr(error, "smtp_code", codes[0] if codes else None)
    return f"answered {code}" if code else type(error).__name__
