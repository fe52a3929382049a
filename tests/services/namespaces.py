"""Network namespaces of a test's own."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

_libc = ctypes.CDLL(None, use_errno=True)
NEW_NET = 0x40000000


@dataclass(frozen=True)
class NetworkNamespace:
    """A network namespace with a unique name; its devices end with it."""

    name: str

    @classmethod
    def create(cls, prefix: str = "novella-test") -> NetworkNamespace:
        made = cls(f"{prefix}-{uuid4().hex[:8]}")
        subprocess.run(["ip", "netns", "add", made.name], check=True)
        made.ip("link", "set", "lo", "up")
        return made

    def delete(self) -> None:
        subprocess.run(["ip", "netns", "delete", self.name], check=True)

    def ip(self, *words: str) -> str:
        """Run `ip` for this namespace, and return its output."""
        return subprocess.run(["ip", "-n", self.name, *words], check=True, stdout=subprocess.PIPE, text=True).stdout

    def inside(self, *words: object) -> list[str]:
        """Return the command that runs `words` in the namespace, as the same process."""
        return ["ip", "netns", "exec", self.name, *map(str, words)]

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        """Run a program in the namespace, and return its result, also of a failure."""
        return subprocess.run(self.inside(*words), check=False, capture_output=True, text=True)

    def pings(self, address: str, *, count: int = 1) -> bool:
        """Return whether an address answers one of so many requests, a second apart."""
        return self.run("busybox", "ping", "-c", count, "-W", 1, address).returncode == 0

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Have this thread, its sockets, and the processes that it starts in the namespace."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            there = os.open(f"/run/netns/{self.name}", os.O_RDONLY)
            try:
                _enter(there)
            finally:
                os.close(there)
            yield
        finally:
            _enter(home)
            os.close(home)


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, NEW_NET):
        raise OSError(ctypes.get_errno(), "setns")
