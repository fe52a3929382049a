"""A RabbitMQ node of a test's own: Debian's scripts, private data, everything on free ports of the loopback.

service = rabbitmq.start(folder)
service.url                      # amqp://guest:guest@127.0.0.1:40123/
service.kill(); service.restart()  # back on the same port, with what it had on its disk
service.stop()

Erlang's port mapper is one of ours too: the machine's own, if there is one, is never asked.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pika
import pika.exceptions

from tests.services import process
from tests.waiting import wait_until

SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
CONTROL = Path("/usr/lib/rabbitmq/bin/rabbitmqctl")
START_SECONDS = 120.0
CONFIGURATION = """
listeners.tcp.1 = 127.0.0.1:{port}
loopback_users = none
log.console = true
log.console.level = warning
log.file = false
disk_free_limit.absolute = 50MB
"""


@dataclass
class Service:
    """A running node; `folder` holds its data, its configuration and its log."""

    folder: Path
    port: int
    node_port: int
    mapper_port: int
    pid: int = 0  # of the Erlang machine, not of the shell script around it
    _mapper: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    _node: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """The value for NOVELLA_BROKER_URL."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    @property
    def log_path(self) -> Path:
        return self.folder / "rabbitmq.log"

    def kill(self) -> None:
        """SIGKILL to the Erlang machine; the script around it then ends by itself."""
        if self._node is not None and self._node.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            process.end(self._node, signal.SIGKILL)
            _await_gone(self.pid)

    def stop(self) -> None:
        """Stop node and port mapper cleanly. Stopping twice does nothing."""
        if self._node is not None and self._node.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)
            process.end(self._node)
            _await_gone(self.pid)
        if self._mapper is not None:
            process.end(self._mapper)
        self._node = self._mapper = None

    def restart(self) -> None:
        """Start again on the same ports and data, after `kill` or `stop`."""
        self.stop()
        (self.folder / "pid").unlink(missing_ok=True)
        mapper = ["epmd", "-port", self.mapper_port, "-address", "127.0.0.1"]
        self._mapper = process.launch(mapper, self.log_path, self._environment())
        process.await_answer(self._mapper, lambda: process.listens(self.mapper_port), self.log_path, START_SECONDS)
        self._node = process.launch([SERVER], self.log_path, self._environment())
        process.await_answer(self._node, self._answers, self.log_path, START_SECONDS)
        self.pid = int((self.folder / "pid").read_text())

    def administer(self, words: Sequence[str]) -> None:
        """Run `rabbitmqctl` with these arguments."""
        command = [str(CONTROL), "--node", f"novella-{self.port}@localhost", *words]
        subprocess.run(command, env=self._environment(), check=True, capture_output=True, timeout=START_SECONDS)

    def _answers(self) -> bool:
        if not (self.folder / "pid").exists() or not process.listens(self.port):
            return False
        try:
            pika.BlockingConnection(pika.URLParameters(f"{self.url}?socket_timeout=20&stack_timeout=30")).close()
        except pika.exceptions.AMQPError:
            return False
        return True

    def _environment(self) -> dict[str, str]:
        folder = self.folder
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),  # Erlang keeps its cookie there
            "LANG": "C.UTF-8",
            "ERL_EPMD_PORT": str(self.mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"novella-{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(self.node_port),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            # One scheduler, and none that spins: the processors are for the processes under test.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "-kernel inet_dist_use_interface {127,0,0,1} +S 2:1 +sbwt none +sbwtdcpu none +sbwtdio none"
            ),
        }


def start(folder: Path) -> Service:
    if not SERVER.exists():
        raise RuntimeError(f"no {SERVER}: install Debian's package rabbitmq-server (make test does)")
    folder.mkdir(parents=True, exist_ok=True)
    service = Service(folder, process.free_port(), process.free_port(), process.free_port())
    (folder / "rabbitmq.conf").write_text(CONFIGURATION.format(port=service.port))
    (folder / "enabled_plugins").write_text("[].\n")
    service.restart()
    return service


def _await_gone(pid: int) -> None:
    wait_until(f"process {pid} is gone", lambda: not Path(f"/proc/{pid}").exists(), process.STOP_SECONDS)
