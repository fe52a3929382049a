"""An etcd server of a test's own: Debian's binary, private data, free ports of the loopback.

service = etcd.start(folder)
service.url                      # etcd://127.0.0.1:14123/novella
service.kill(); service.restart()  # back on the same port, with what it had on its disk
service.stop()
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import requests
from etcd3gw.client import Etcd3Client
from etcd3gw.exceptions import Etcd3Exception

from tests.services import process

START_SECONDS = 120.0


@dataclass
class Service(process.Server):
    """A running server; `folder` holds its data and its log."""

    peer_port: int

    @property
    def url(self) -> str:
        """The value for NOVELLA_MEMBERSHIP_URL."""
        return f"etcd://127.0.0.1:{self.port}/novella"

    def restart(self) -> None:
        """Start, or start again on the same port and data."""
        client, peer = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{self.peer_port}"
        command = ["etcd", "--name", "only", "--data-dir", self.folder / "data"]
        command += ["--listen-client-urls", client, "--advertise-client-urls", client]
        command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        command += ["--initial-cluster", f"only={peer}", "--log-level", "error"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ETCD_")}
        self.run(command, self._answers, START_SECONDS, environment)

    def _answers(self) -> bool:
        try:
            return bool(Etcd3Client(host="127.0.0.1", port=self.port, timeout=10).status())
        except (Etcd3Exception, requests.RequestException):
            return False


def start(folder: Path) -> Service:
    if not shutil.which("etcd"):
        raise RuntimeError("no etcd: install Debian's package etcd-server (make test does)")
    folder.mkdir(parents=True, exist_ok=True)
    service = Service(folder, process.free_port(), process.free_port())
    service.restart()
    return service
