"""A Redis server of a test's own, on a free port of the loopback. It keeps nothing: what is killed has forgotten all.

service = redis.start(folder)
service.url                      # redis://127.0.0.1:40123/0
service.kill(); service.restart()  # back on the same port, empty
service.stop()
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import redis

from tests.services import process

START_SECONDS = 30.0


@dataclass
class Service:
    """A running server; `folder` holds its log."""

    folder: Path
    port: int
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """What NOVELLA_BROKER_URL and NOVELLA_CHANNEL_URL take."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log_path(self) -> Path:
        return self.folder / "redis.log"

    def kill(self) -> None:
        if self._process is not None:
            process.end(self._process, signal.SIGKILL)

    def stop(self) -> None:
        if self._process is not None:
            process.end(self._process)
        self._process = None

    def restart(self) -> None:
        self.stop()
        command = ["redis-server", "--port", self.port, "--bind", "127.0.0.1", "--dir", self.folder, "--save", ""]
        self._process = process.launch([*command, "--appendonly", "no"], self.log_path, os.environ)
        process.await_answer(self._process, self._answers, self.log_path, START_SECONDS)

    def _answers(self) -> bool:
        try:
            return bool(redis.Redis(port=self.port, socket_timeout=1).ping())
        except redis.RedisError:
            return False


def start(folder: Path) -> Service:
    if not shutil.which("redis-server"):
        raise RuntimeError("no redis-server: install Debian's package redis-server (make test does)")
    folder.mkdir(parents=True, exist_ok=True)
    service = Service(folder, process.free_port())
    service.restart()
    return service
