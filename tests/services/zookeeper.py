"""A ZooKeeper server of a test's own: Debian's Java archive, private data, a free port of the loopback.

service = zookeeper.start(folder)
service.url                      # zookeeper://127.0.0.1:14123/novella
service.kill(); service.restart()  # back on the same port, with what it had on its disk
service.stop()
"""

from __future__ import annotations

import os
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

from tests.services import process

ARCHIVE = Path("/usr/share/java/zookeeper.jar")  # names the others that it needs
START_SECONDS = 120.0
# Short ticks: a session may then be as short as the client asks for. They would also limit it to 4 seconds.
CONFIGURATION = """
tickTime=200
maxSessionTimeout=60000
dataDir={data}
clientPort={port}
clientPortAddress=127.0.0.1
admin.enableServer=false
4lw.commands.whitelist=ruok
"""
LOGGING = """
log4j.rootLogger=WARN, CONSOLE
log4j.appender.CONSOLE=org.apache.log4j.ConsoleAppender
log4j.appender.CONSOLE.layout=org.apache.log4j.PatternLayout
log4j.appender.CONSOLE.layout.ConversionPattern=%d %p %c %m%n
"""


@dataclass
class Service(process.Server):
    """A running server; `folder` holds its data, its configuration and its log."""

    @property
    def url(self) -> str:
        """The value for NOVELLA_MEMBERSHIP_URL."""
        return f"zookeeper://127.0.0.1:{self.port}/novella"

    def restart(self) -> None:
        """Start, or start again on the same port and data."""
        command = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]  # small, and quick to start
        command += ["-cp", f"{self.folder}:{ARCHIVE}", "org.apache.zookeeper.server.ZooKeeperServerMain"]
        self.run([*command, self.folder / "zoo.cfg"], self._answers, START_SECONDS, os.environ)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=10) as requested:
                requested.sendall(b"ruok")
                return requested.recv(16) == b"imok"
        except OSError:
            return False


def start(folder: Path) -> Service:
    if not ARCHIVE.exists() or not shutil.which("java"):
        raise RuntimeError(f"no {ARCHIVE} or no java: install Debian's package zookeeper (make test does)")
    folder.mkdir(parents=True, exist_ok=True)
    service = Service(folder, process.free_port())
    (folder / "zoo.cfg").write_text(CONFIGURATION.format(data=folder / "data", port=service.port))
    (folder / "log4j.properties").write_text(LOGGING)
    service.restart()
    return service
