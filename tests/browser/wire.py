"""A wire between browser and server that a test can cut and mend."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType

from tests.waiting import WAIT_SECONDS, wait_until_async

LONGEST_FREEZE_SECONDS = 3600.0  # a pump waits until its connection is cut or mended


class Wire:
    """Listens on a port of its own and passes every connection on to the server's."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="wire")
        self._open: set[asyncio.StreamWriter] = set()
        self._is_cut = False
        self.lets_sockets_through = True  # else as proxies are that know nothing of them
        self.breaks_answers = False  # aborts them after the status
        self.is_frozen = False  # as in front of a stopped process: connections open, and nothing comes back
        self.port = 0

    def __enter__(self) -> Wire:
        self._thread.start()
        server = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._connected, "127.0.0.1", 0), self._loop)
        self._server = server.result(WAIT_SECONDS)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()
        self._loop.call_soon_threadsafe(self._server.close)
        asyncio.run_coroutine_threadsafe(self._settle(), self._loop).result(WAIT_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_SECONDS)

    def cut(self) -> None:
        """Cut all connections, and refuse new ones."""
        self._is_cut = True
        self._loop.call_soon_threadsafe(self._abort_all)

    def mend(self) -> None:
        """New connections get through again."""
        self._is_cut = False
        self.lets_sockets_through = True
        self.breaks_answers = False
        self.is_frozen = False

    def _abort_all(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    async def _settle(self) -> None:
        """Wait until the relaying threads have noticed the closed connections."""
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others, timeout=WAIT_SECONDS)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        except OSError:
            writer.transport.abort()
            return
        await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        self._open.add(target)
        try:
            while data := await source.read(65_536):
                await wait_until_async("the wire is mended", lambda: not self.is_frozen, LONGEST_FREEZE_SECONDS)
                if not self.lets_sockets_through and b"\r\nupgrade: websocket" in data.lower():
                    return
                if self.breaks_answers and data.startswith(b"HTTP/1.1 200"):
                    head, end, body = data.partition(b"\r\n\r\n")
                    target.write(head + end + body[:-1])
                    return
                target.write(data)
                await target.drain()
        except OSError:
            pass
        finally:
            self._open.discard(target)
            target.close()
