"""A Redis server of a test's own, on a free port of the loopback. It stores nothing: a kill loses everything.

service = redis.start(folder)
service.url                      # redis://127.0.0.1:40123/0
service.kill(); service.restart()  # back on the same port, empty
service.stop()
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import redis

from tests.services import process

START_SECONDS = 120.0


@dataclass
class Service(process.Server):
    """A running server; `folder` holds its log."""

    @property
    def url(self) -> str:
        """The value for NOVELLA_BROKER_URL and NOVELLA_CHANNEL_URL."""
        return f"redis://127.0.0.1:{self.port}/0"

    def restart(self) -> None:
        command = ["redis-server", "--port", self.port, "--bind", "127.0.0.1", "--dir", self.folder, "--save", ""]
        self.run([*command, "--appendonly", "no"], self._answers, START_SECONDS, os.environ)

    def administer(self, words: Sequence[str]) -> None:
        """Run `redis-cli` with these arguments."""
        redis.Redis(port=self.port, socket_timeout=60).execute_command(*words)

    def _answers(self) -> bool:
        try:
            return bool(redis.Redis(port=self.port, socket_timeout=10).ping())
        except redis.RedisError:
            return False


def start(folder: Path) -> Service:
    if not shutil.which("redis-server"):
        raise RuntimeError("no redis-server: install Debian's package redis-server (make test does)")
    folder.mkdir(parents=True, exist_ok=True)
    service = Service(folder, process.free_port())
    service.restart()
    return service
