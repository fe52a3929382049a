"""A console in a browser: a one-time token opens it, then bytes flow both ways until one side ends.

browser ── websocket ──▶ here ── TLS ──▶ the host's console port ──▶ the guest
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

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden, NovellaError, Unavailable
from conductor.core.identifiers import new_request_id
from conductor.core.messages import message
from conductor.core.view_only import ViewOnlyFilter, view_only_filter
from conductor.services.consoles import connections, consoles
from conductor.services.consoles.consoles import OpenedConsole
from portal.live import consumers, follower
from portal.session_callers import caller_of

log = logging.getLogger(__name__)
T = TypeVar("T")

PIECE = 1 << 16
CHECK_SECONDS = 5.0
LONGEST_REASON = 123  # bytes, by the WebSocket protocol
SUBPROTOCOL = "binary"  # old clients request it

# Close codes, for the page's script.
ENDED = 1000  # by the guest or its host
REFUSED = 4403
NOT_REACHED = 4503
OVER = 4408


class ConsoleConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """Relays bytes between browser and guest, and stores nothing. Input of a view-only viewer does not reach the guest.

    A token in the path comes from a page: its script gets the reason of a refusal. A token in the query comes from a
    program that follows the API's link: an invalid one ends the handshake with 403.
    """

    async def connect(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self._watcher: ViewOnlyFilter | None = None
        self._writer: asyncio.StreamWriter | None = None
        if _is_foreign(self.scope):
            await self.close(code=REFUSED)
            return
        offered = self.scope.get("subprotocols", [])
        named = self.scope["url_route"]["kwargs"].get("token")
        token = named or parse_qs(self.scope["query_string"].decode(errors="replace")).get("token", [""])[0]
        try:
            console = await _ask(lambda: consoles.redeem(token, _caller))
            if console.only_watches:
                self._watcher = view_only_filter(console.kind)
            reader, self._writer = await connections.dial(console)
        except NovellaError as error:
            if named is None:  # programs for OpenStack's consoles would take any message for the guest's output
                await self.close(code=REFUSED)
                return
            await self.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)  # so that the script gets the reason
            await self._end(NOT_REACHED if isinstance(error, Unavailable) else REFUSED, error.message)
            return
        await self.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
        self._tasks = [asyncio.create_task(work) for work in (self._carry(reader), self._watch(console))]

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self._writer is None:
            return
        reported = bytes_data if bytes_data is not None else (text_data or "").encode()
        try:
            self._writer.write(reported if self._watcher is None else self._watcher.filter(reported))
            await self._writer.drain()
        except Forbidden as error:
            await self._end(REFUSED, error.message)
        except OSError:
            await self._end(ENDED, message("console.ended"))

    async def disconnect(self, code: int) -> None:
        for task in self._tasks:
            task.cancel()
        if self._writer is not None:
            self._writer.close()

    async def _carry(self, reader: asyncio.StreamReader) -> None:
        """Relay the guest's output until it ends."""
        with suppress(OSError):
            while piece := await reader.read(PIECE):
                await self.send(bytes_data=piece)
        await self._end(ENDED, message("console.lost"))

    async def _watch(self, console: OpenedConsole) -> None:
        """End the console once its time or its viewer's rights have ended."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + console.seconds if console.seconds else float("inf")
        while (left := ends_at - loop.time()) > 0:
            await asyncio.sleep(min(CHECK_SECONDS, left))
            try:
                await _ask(lambda: consoles.check(console.token_hash, _caller))
            except NovellaError as error:
                await self._end(REFUSED, error.message)
                return
            except Exception:  # a failed check ends nothing
                log.exception("console not checked: instance=%s", console.instance_uuid)
        await self._end(OVER, message("console.expired"))

    async def _end(self, code: int, reason: str) -> None:
        if self._writer is not None:
            self._writer.close()
        with suppress(OSError, RuntimeError):  # already disconnected
            reported = consumers.in_language_of(self.scope, reason)
            await self.close(code=code, reason=reported.encode()[:LONGEST_REASON].decode(errors="ignore"))


def _is_foreign(scope: dict[str, Any]) -> bool:
    """Whether a page of another site opens the socket; programs send no origin, and have only the token."""
    return b"origin" in dict(scope["headers"]) and not consumers.is_from_here(scope)


def _caller(session_key: str) -> RequestContext | None:
    """Return the caller of a session with current rights; None if they have ended."""
    return caller_of(SessionStore(session_key), new_request_id())


async def _ask(question: Callable[[], T]) -> T:
    return await follower.read(question)
