"""Who has the serial line of which guest, and who watches it: it has one reader, and others see what that one reads."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

Key = tuple[str, str]  # host and instance

PIECE = 1 << 16
TAKE_SECONDS = 10.0
# What somebody who begins to watch is shown of before.
RECENT_BYTES = 16 << 10
# A watcher who is further behind is let go: nobody waits for watchers.
MOST_BEHIND = 1 << 20


@dataclass
class _Line:
    holder: asyncio.Task[None] | None = None
    watchers: set[asyncio.StreamWriter] = field(default_factory=set)
    recent: bytes = b""


class SerialLines:
    """The lines of one door; all of it on the door's loop."""

    def __init__(self) -> None:
        self._lines: dict[Key, _Line] = {}

    async def take(self, key: Key, task: asyncio.Task[None]) -> None:
        """Give the line to `task`: whoever comes later ends the one before."""
        line = self._lines.setdefault(key, _Line())
        before, line.holder = line.holder, task
        if before is not None:
            before.cancel()
            await asyncio.wait([before], timeout=TAKE_SECONDS)

    def give_back(self, key: Key, task: asyncio.Task[None]) -> None:
        """Nothing where somebody else has taken it."""
        line = self._lines.get(key)
        if line is not None and line.holder is task:
            line.holder = None
            self._forget_if_idle(key)

    def heard(self, key: Key, piece: bytes) -> None:
        """What the guest said to whoever has the line, for all who watch."""
        line = self._lines[key]
        line.recent = (line.recent + piece)[-RECENT_BYTES:]
        for watcher in tuple(line.watchers):
            if watcher.transport.get_write_buffer_size() > MOST_BEHIND:
                watcher.transport.abort()
            else:
                watcher.write(piece)

    async def watch(self, key: Key, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Show the line, whoever has it, until the watcher goes; what the watcher says is thrown away."""
        line = self._lines.setdefault(key, _Line())
        line.watchers.add(writer)
        writer.write(line.recent)
        try:
            while await reader.read(PIECE):
                pass
        finally:
            line.watchers.discard(writer)
            self._forget_if_idle(key)

    def _forget_if_idle(self, key: Key) -> None:
        line = self._lines.get(key)
        if line is not None and line.holder is None and not line.watchers:
            del self._lines[key]
