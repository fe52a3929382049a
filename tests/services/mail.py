"""A real mail server in this process, on a free port; it keeps the messages that it receives."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import Message
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword

from tests.services.process import free_port

USER, PASSWORD = "novella", "seven ducks/swim"


class Post:
    """Received mails in `got`, with their recipients; `answers` are the server's next replies by address."""

    def __init__(self) -> None:
        self.got: list[tuple[list[str], Message]] = []
        self.answers: list[str] = []
        self.logins: list[bytes] = []
        self.port = free_port()

    async def handle_RCPT(  # noqa: N802 - the server calls it so
        self, server: Any, session: Any, envelope: Any, address: str, options: Any
    ) -> str:
        answer = self.answers.pop(0) if self.answers else "250 OK"
        if answer.startswith("250"):
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802 - the same
        self.got.append((list(envelope.rcpt_tos), message_from_bytes(envelope.content)))
        return "250 OK"

    def login(self, server: Any, session: Any, envelope: Any, mechanism: str, data: LoginPassword) -> AuthResult:
        self.logins.append(data.password)
        return AuthResult(success=(data.login, data.password) == (USER.encode(), PASSWORD.encode()))


@contextmanager
def running(scheme: str = "smtp", tls: ssl.SSLContext | None = None) -> Iterator[Post]:
    """Run the server for `scheme`; with `tls` it requires a login."""
    post = Post()
    wants: dict[str, Any] = {}
    if tls is not None:
        wants = {"authenticator": post.login, "auth_required": True, "auth_require_tls": scheme == "smtp+starttls"}
        wants |= {"ssl_context": tls} if scheme == "smtps" else {"tls_context": tls, "require_starttls": True}
    controller = Controller(post, hostname="127.0.0.1", port=post.port, **wants)
    controller.start()
    try:
        yield post
    finally:
        controller.stop()
