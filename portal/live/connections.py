"""Connections of browsers, and their subscriptions."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from portal.live.viewers import Ticket

log = logging.getLogger(__name__)

MOST_WAITING = 64  # messages for a browser that does not read them

# Close codes, for the page's script. It reconnects after all but the first two.
SIGN_IN_AGAIN = 4401
NOT_FROM_HERE = 4403
MISUNDERSTOOD = 4400
TOO_SLOW = 4408
TOO_MANY = 4429  # the user, or the process, has no socket left
MOVED = 4409  # its rights have changed, so its subscriptions have to change too
BROKEN = 1011


class Connection:
    """A browser behind a socket or a poll. Messages are sent in order; a slow browser does not delay others."""

    def __init__(self, ticket: Ticket, send: Callable[[str], Awaitable[None]], close: Callable[[int], Awaitable[None]]):
        self.ticket = ticket
        self._send, self._close = send, close
        self._waiting: deque[str] = deque()
        self._sending: asyncio.Task[None] | None = None
        self._is_ended = False

    def deliver(self, text: str) -> None:
        """Queue a message."""
        if self._is_ended:
            return
        if len(self._waiting) >= MOST_WAITING:
            self.end(TOO_SLOW)
            return
        self._waiting.append(text)
        if self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._pour())

    def end(self, code: int) -> None:
        """Close the connection with a code."""
        if self._is_ended:
            return
        self._is_ended = True
        if code == TOO_SLOW and self._sending is not None:
            self._sending.cancel()
        self._waiting.clear()
        self._ending = asyncio.get_running_loop().create_task(self._leave(code))

    def gone(self) -> None:
        """Handle a disconnect: nothing is sent any more."""
        self._is_ended = True
        self._waiting.clear()

    async def _pour(self) -> None:
        try:
            while self._waiting:
                await self._send(self._waiting.popleft())
        except (OSError, RuntimeError):
            log.debug("socket is gone")
            self.gone()
        finally:
            self._sending = None

    async def _leave(self, code: int) -> None:
        with suppress(OSError, RuntimeError):  # already disconnected
            await self._close(code)


@dataclass(eq=False)
class TopicSubscription:
    """A connection that follows a topic; `seen` is the position in the log up to which its page is current."""

    connection: Connection
    seen: Mapping[str, int]
    is_behind: bool = field(default=False)  # it missed something that no event will bring

    def lacks(self, news: Mapping[str, int]) -> bool:
        return any(number > self.seen.get(alias, 0) for alias, number in news.items())

    def reach(self, place: Mapping[str, int]) -> None:
        """Advance to `place`; a page may be ahead of it, as it reads the log itself."""
        ahead = {alias: number for alias, number in self.seen.items() if number > place.get(alias, 0)}
        self.seen = {**place, **ahead} if ahead else place
