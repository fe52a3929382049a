"""A libvirt daemon of a test's own: it sees folders of its own where others see the machine's."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path
from uuid import uuid4

from tests.waiting import wait_until

SECONDS = 240.0
DAEMON = "/usr/sbin/libvirtd"
# The daemon's files under these paths are in the test's folder.
FOLDERS = {"run": "/run/libvirt", "lib": "/var/lib/libvirt", "etc": "/etc/libvirt", "log": "/var/log/libvirt"}
QEMU_CONF = (
    'user = "root"\ngroup = "root"\ndynamic_ownership = 0\nremember_owner = 0\nsecurity_driver = "none"\n'
    'cgroup_controllers = [ ]\nnamespaces = [ ]\nstdio_handler = "file"\n'
)
LIBVIRTD_CONF = 'listen_tls = 0\nauth_unix_rw = "none"\nunix_sock_group = "root"\n'
# In a mount namespace of its own: binds each folder over the machine's, then becomes the daemon.
SCRIPT = "\n".join(
    [
        "set -e",
        *(f'mkdir -p "{place}"; mount --bind "$1/{name}" "{place}"' for name, place in FOLDERS.items()),
        f'exec {DAEMON} -p "$1/run/libvirtd.pid"',
    ]
)


class Daemon:
    """Guests outlive it, as they do everywhere."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in (*FOLDERS, "cache"):
            (folder / name).mkdir(parents=True)
        (folder / "etc" / "qemu.conf").write_text(QEMU_CONF)
        # No two that guests move between have the same.
        (folder / "etc" / "libvirtd.conf").write_text(f'{LIBVIRTD_CONF}host_uuid = "{uuid4()}"\n')
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        return f"qemu+unix:///system?socket={self.folder}/run/libvirt-sock"

    def start(self) -> None:
        """Returns once it answers."""
        words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", SCRIPT, "sh", str(self.folder)]
        with (self.folder / "log" / "output").open("ab") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_until("libvirtd answers", self._answers, SECONDS, details=self._output)

    def kill_9(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"libvirtd ended: {self._output()}"
        with socket.socket(socket.AF_UNIX) as joined:
            return joined.connect_ex(f"{self.folder}/run/libvirt-sock") == 0

    def _output(self) -> str:
        return (self.folder / "log" / "output").read_text()

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            os.kill(self._process.pid, how)
            self._process.wait(SECONDS)
        self._process = None
