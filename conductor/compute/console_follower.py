"""Follows the console logs of a host's guests and sends new output to the conductor."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from conductor.compute.failures import THREAD_EXITS
from conductor.compute.hosts import HostConfig
from conductor.compute.manager import Send
from conductor.core import console_text
from conductor.core.compute_driver import ComputeDriver
from conductor.rpc.messages import ConsolesWritten

log = logging.getLogger(__name__)

# Maximum number of reads of one console at a time.
MAX_READS = 256
# What is shown, and an incomplete character before it.
KEPT_BYTES = console_text.TAIL_BYTES + 4
# Limits of one message, which a conductor stores in one transaction.
MAX_CONSOLES_PER_MESSAGE = 32
MAX_BYTES_PER_MESSAGE = 4 * KEPT_BYTES


@dataclass(frozen=True)
class _NewOutput:
    """New output of a guest's console from `offset` to `end`; `shown` is the part to send."""

    uuid: str
    offset: int
    end: int
    shown: bytes


class ConsoleFollower:
    """Consoles of one host. Offsets are kept in memory only: after a restart the end of each log is sent again."""

    def __init__(self, config: HostConfig, driver: ComputeDriver, send: Send) -> None:
        self._config = config
        self._driver = driver
        self._send = send
        self._lock = threading.Lock()
        self._sent: dict[str, int] = {}  # bytes sent of each guest's console
        self._failing: set[str] = set()

    @property
    def is_following(self) -> bool:
        """Return whether there are guests to forget, or to read again."""
        return bool(self._sent)

    def follow(self, instance_uuids: Iterable[str]) -> None:
        """Send new output of these guests, at most 64 KiB of each, and forget all other guests."""
        if not self._driver.supports_console_log:
            return
        wanted = set(instance_uuids)
        with self._lock:
            self._sent = {uuid: self._sent.get(uuid, 0) for uuid in wanted}
        self._failing &= wanted
        found = filter(None, map(self._read_or_none, sorted(wanted)))
        while some := list(_one_message(found)):
            self._send_all(some)

    def forget(self, instance_uuid: str) -> None:
        """Start this console at offset 0 again: its guest was built or destroyed."""
        with self._lock:
            self._sent.pop(instance_uuid, None)

    def _read_or_none(self, uuid: str) -> _NewOutput | None:
        """Return new output; None where there is none or the console cannot be read."""
        try:
            news = self._read(uuid)
        except (Exception, *THREAD_EXITS):
            if uuid not in self._failing:  # logged once, not every second
                log.warning("console not read: host=%s instance=%s", self._config.host, uuid, exc_info=True)
            self._failing.add(uuid)
            return None
        self._failing.discard(uuid)
        return news if news.shown else None

    def _read(self, uuid: str) -> _NewOutput:
        with self._lock:
            offset = self._sent.get(uuid, 0)
        begin, raw = self._read_end(uuid, offset)
        news = raw[: console_text.whole_length(raw)]
        return _NewOutput(uuid, offset, begin + len(news), console_text.tail(news))

    def _send_all(self, news: Sequence[_NewOutput]) -> None:
        pieces = [
            {"instance_uuid": it.uuid, "offset": it.end - len(it.shown), "text": console_text.to_text(it.shown)}
            for it in news
        ]
        self._send(self._config.cell, ConsolesWritten(host=self._config.host, pieces=pieces))
        with self._lock:
            for it in news:
                if self._sent.get(it.uuid, -1) == it.offset:  # otherwise it was forgotten meanwhile
                    self._sent[it.uuid] = it.end

    def _read_end(self, uuid: str, offset: int) -> tuple[int, bytes]:
        """Return the end of the output from `offset` on, and its own offset.

        Of a guest that writes a lot only the end is shown, so earlier output is skipped.
        """
        begin, newest = offset, b""
        for _ in range(MAX_READS):
            piece = self._driver.console_log(uuid, begin + len(newest))
            newest += piece
            spare = max(len(newest) - KEPT_BYTES, 0)
            begin, newest = begin + spare, newest[spare:]
            if len(piece) < console_text.TAIL_BYTES:
                break
        return begin, newest


def _one_message(found: Iterator[_NewOutput]) -> Iterator[_NewOutput]:
    """Yield as many as fit into one message."""
    size = 0
    for number, news in enumerate(found, 1):
        yield news
        size += len(news.shown)
        if number == MAX_CONSOLES_PER_MESSAGE or size >= MAX_BYTES_PER_MESSAGE:
            return
