"""Follows the serial consoles of a host's guests and sends what is new."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from conductor.compute.driver_words import ENDS_THREADS
from conductor.compute.hosts import HostConfig
from conductor.compute.manager import Send
from conductor.core import console_text
from conductor.core.compute_driver import ComputeDriver
from conductor.rpc.messages import ConsolesWritten

log = logging.getLogger(__name__)

# So many pieces are read of one console in a turn.
MOST_PIECES = 256
# What is shown, and a character that is cut off before it.
KEPT_BYTES = console_text.TAIL_BYTES + 4
# What goes in one message, which a conductor keeps in one transaction: so many consoles, or so much of them.
MOST_CONSOLES = 32
MUCH_BYTES = 4 * KEPT_BYTES


@dataclass(frozen=True)
class _News:
    """What is to be shown of a guest's console, up to `end`; it was looked at from `offset` on."""

    uuid: str
    offset: int
    end: int
    shown: bytes


class ConsoleFollower:
    """Consoles of one host. How far each was sent is kept in memory: after a restart its tail is sent again."""

    def __init__(self, config: HostConfig, driver: ComputeDriver, send: Send) -> None:
        self._config = config
        self._driver = driver
        self._send = send
        self._gate = threading.Lock()
        self._sent: dict[str, int] = {}  # bytes sent of each guest's console
        self._failing: set[str] = set()

    def follow(self, instance_uuids: Iterable[str]) -> None:
        """Send the news of these guests' consoles, at most 64 KiB of each; others are forgotten."""
        if not self._driver.supports_console_log:
            return
        wanted = set(instance_uuids)
        with self._gate:
            self._sent = {uuid: self._sent.get(uuid, 0) for uuid in wanted}
        self._failing &= wanted
        found = filter(None, map(self._news_or_none, sorted(wanted)))
        while some := list(_one_message(found)):
            self._send_all(some)

    def forget(self, instance_uuid: str) -> None:
        """Begin this console anew: its guest was built or destroyed."""
        with self._gate:
            self._sent.pop(instance_uuid, None)

    def _news_or_none(self, uuid: str) -> _News | None:
        """None for nothing new, and where the console cannot be read."""
        try:
            news = self._news(uuid)
        except (Exception, *ENDS_THREADS):
            if uuid not in self._failing:  # said once, not every second
                log.warning("console not read: host=%s instance=%s", self._config.host, uuid, exc_info=True)
            self._failing.add(uuid)
            return None
        self._failing.discard(uuid)
        return news if news.shown else None

    def _news(self, uuid: str) -> _News:
        with self._gate:
            offset = self._sent.get(uuid, 0)
        begin, raw = self._newest(uuid, offset)
        news = raw[: console_text.whole_length(raw)]
        return _News(uuid, offset, begin + len(news), console_text.tail(news))

    def _send_all(self, news: Sequence[_News]) -> None:
        pieces = [
            {"instance_uuid": it.uuid, "offset": it.end - len(it.shown), "text": console_text.to_text(it.shown)}
            for it in news
        ]
        self._send(self._config.cell, ConsolesWritten(host=self._config.host, pieces=pieces))
        with self._gate:
            for it in news:
                if self._sent.get(it.uuid, -1) == it.offset:  # else it was forgotten meanwhile
                    self._sent[it.uuid] = it.end

    def _newest(self, uuid: str, offset: int) -> tuple[int, bytes]:
        """The end of what there is from `offset` on, and where it begins.

        A guest that writes a lot is not run after: of what it wrote since the last turn only the end is shown anyway,
        and before that there may be nothing any more.
        """
        begin, newest = offset, b""
        for _ in range(MOST_PIECES):
            piece = self._driver.console_log(uuid, begin + len(newest))
            newest += piece
            spare = max(len(newest) - KEPT_BYTES, 0)
            begin, newest = begin + spare, newest[spare:]
            if len(piece) < console_text.TAIL_BYTES:
                break
        return begin, newest


def _one_message(found: Iterator[_News]) -> Iterator[_News]:
    """As many of the next as one message takes."""
    size = 0
    for number, news in enumerate(found, 1):
        yield news
        size += len(news.shown)
        if number == MOST_CONSOLES or size >= MUCH_BYTES:
            return
