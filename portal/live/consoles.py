"""One console in one browser: a token that opens it once, and bytes both ways until one side ends.

browser ── websocket ──▶ here ── TLS ──▶ the host's door ──▶ the guest
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import parse_qs

from channels.generic.websocket import AsyncWebsocketConsumer
from django.contrib.sessions.backends.db import SessionStore

from conductor.core.console_watching import Watcher, watcher_of
from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden, NovellaError, Unavailable
from conductor.services import console_lines, consoles, sign_in
from conductor.services.consoles import OpenedConsole
from portal.askers import asker_of
from portal.live import consumers, follower
from portal.request_ids import new_request_id

log = logging.getLogger(__name__)
T = TypeVar("T")

PIECE = 1 << 16
CHECK_SECONDS = 5.0
LONGEST_REASON = 123  # bytes, by the protocol of websockets
SUBPROTOCOL = "binary"  # clients of older days ask for it

# Why a console was closed, for the page's script.
ENDED = 1000  # by the guest or its host
REFUSED = 4403
NOT_REACHED = 4503
OVER = 4408


class ConsoleConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """What comes in goes to the guest, and back; nothing is kept. Of who only watches no word goes on that the
    guest could hear.

    The token stands in the path, and the page's script is told why it was refused; or, as programs have it from the
    API's link, in the query: then a token that is no good ends the handshake with 403.
    """

    async def connect(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self._watcher: Watcher | None = None
        self._writer: asyncio.StreamWriter | None = None
        if _is_foreign(self.scope):
            await self.close(code=REFUSED)
            return
        offered = self.scope.get("subprotocols", [])
        named = self.scope["url_route"]["kwargs"].get("token")
        token = named or parse_qs(self.scope["query_string"].decode(errors="replace")).get("token", [""])[0]
        try:
            console = await _ask(lambda: consoles.redeem(token, _asker))
            if console.only_watches:
                self._watcher = watcher_of(console.kind)
            reader, self._writer = await console_lines.dial(console)
        except NovellaError as error:
            if named is None:  # programs that know consoles of OpenStack take whatever is sent for the guest's
                await self.close(code=REFUSED)
                return
            await self.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)  # else no script learns why
            await self._end(NOT_REACHED if isinstance(error, Unavailable) else REFUSED, error.message)
            return
        await self.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
        self._tasks = [asyncio.create_task(work) for work in (self._carry(reader), self._watch(console))]

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self._writer is None:
            return
        said = bytes_data if bytes_data is not None else (text_data or "").encode()
        try:
            self._writer.write(said if self._watcher is None else self._watcher.passes(said))
            await self._writer.drain()
        except Forbidden as error:
            await self._end(REFUSED, error.message)
        except OSError:
            await self._end(ENDED, "The console has ended.")

    async def disconnect(self, code: int) -> None:
        for task in self._tasks:
            task.cancel()
        if self._writer is not None:
            self._writer.close()

    async def _carry(self, reader: asyncio.StreamReader) -> None:
        """What the guest says, until it ends."""
        with suppress(OSError):
            while piece := await reader.read(PIECE):
                await self.send(bytes_data=piece)
        await self._end(ENDED, "The guest is off, or somebody else has opened this console.")

    async def _watch(self, console: OpenedConsole) -> None:
        """End the console once its right or its time is over."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + console.seconds if console.seconds else float("inf")
        while (left := ends_at - loop.time()) > 0:
            await asyncio.sleep(min(CHECK_SECONDS, left))
            try:
                await _ask(lambda: consoles.check(console.token_hash, _asker))
            except NovellaError as error:
                await self._end(REFUSED, error.message)
                return
            except Exception:  # what cannot be known now ends nothing
                log.exception("console not checked: instance=%s", console.instance_uuid)
        await self._end(OVER, "The time of this console is over.")

    async def _end(self, code: int, reason: str) -> None:
        if self._writer is not None:
            self._writer.close()
        with suppress(OSError, RuntimeError):  # gone already
            said = consumers.in_language_of(self.scope, reason)
            await self.close(code=code, reason=said.encode()[:LONGEST_REASON].decode(errors="ignore"))


def _is_foreign(scope: dict[str, Any]) -> bool:
    """Whether a page of somebody else's opens the socket; programs say no origin, and have the token alone."""
    return b"origin" in dict(scope["headers"]) and not consumers.is_from_here(scope)


def _asker(user_id: str, project_id: str, session_key: str) -> RequestContext | None:
    """Whom a token speaks for, with the rights of this moment; None when they are gone."""
    if not session_key:
        return sign_in.context_for(user_id, project_id, new_request_id())
    return asker_of(SessionStore(session_key), new_request_id())


async def _ask(question: Callable[[], T]) -> T:
    return await follower.read(question)
