"""Shells in containers, connected to sockets that carry input and output."""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import socket
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from compute_drivers.container.runtime import Runtime
from compute_drivers.host_paths import os_errors_as
from conductor.core.errors import DriverError

TERMINAL_TIMEOUT_SECONDS = 10.0
CHUNK_BYTES = 65_536


def open_shell(runtime: Runtime, instance_uuid: str, folder: Path) -> socket.socket:
    """Return a socket connected to a new root shell; each ends with the other. Raises DriverError."""
    terminal = _open_terminal(runtime, instance_uuid, folder)
    near, far = socket.socketpair()
    threading.Thread(target=_relay, args=(terminal, near), name="container terminal", daemon=True).start()
    return far


def _open_terminal(runtime: Runtime, instance_uuid: str, folder: Path) -> int:
    """Return the descriptor of a terminal, which the runtime sends over a socket in `folder`."""
    path = folder / f"tty-{secrets.token_hex(4)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        try:
            with os_errors_as("The terminal of the guest has no place"):
                listener.bind(str(path))
                listener.listen(1)
                listener.settimeout(TERMINAL_TIMEOUT_SECONDS)
            runtime.open_shell(instance_uuid, path)
            with os_errors_as("The terminal of the guest was not handed over"):
                peer, _ = listener.accept()
                with peer:
                    peer.settimeout(TERMINAL_TIMEOUT_SECONDS)
                    _, descriptors, _, _ = socket.recv_fds(peer, CHUNK_BYTES, 1)
        finally:
            path.unlink(missing_ok=True)
    if not descriptors:
        raise DriverError("The terminal of the guest was not handed over.")
    return descriptors[0]


def _relay(terminal: int, near: socket.socket) -> None:
    """Copy data both ways until one end closes. Reading a terminal whose shell has ended fails."""
    try:
        with contextlib.suppress(OSError), near, selectors.DefaultSelector() as selector:
            selector.register(terminal, selectors.EVENT_READ, (partial(os.read, terminal), near.sendall))
            selector.register(near, selectors.EVENT_READ, (near.recv, partial(_write, terminal)))
            while all(_copy_chunk(*key.data) for key, _ in selector.select()):
                pass
    finally:
        os.close(terminal)


def _copy_chunk(read: Callable[[int], bytes], write: Callable[[bytes], None]) -> bool:
    """Copy one chunk; return False at the end of the data."""
    data = read(CHUNK_BYTES)
    if data:
        write(data)
    return bool(data)


def _write(terminal: int, data: bytes) -> None:
    while data:
        data = data[os.write(terminal, data) :]
