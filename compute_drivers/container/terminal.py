"""Shells inside of containers, as sockets that carry what is typed and what is answered."""

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
from compute_drivers.host_places import files
from conductor.core.errors import DriverError

HAND_OVER_SECONDS = 10.0
CHUNK_BYTES = 65_536


def connect(runtime: Runtime, instance_uuid: str, folder: Path) -> socket.socket:
    """A new shell of root; it ends with the socket, and the socket with it. Raises DriverError."""
    terminal = _opened(runtime, instance_uuid, folder)
    ours, theirs = socket.socketpair()
    threading.Thread(target=_carry, args=(terminal, ours), name="container terminal", daemon=True).start()
    return theirs


def _opened(runtime: Runtime, instance_uuid: str, folder: Path) -> int:
    """The near end of a terminal, which the runtime hands over at a socket in `folder`."""
    place = folder / f"tty-{secrets.token_hex(4)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        try:
            with files("The terminal of the guest has no place"):
                listening.bind(str(place))
                listening.listen(1)
                listening.settimeout(HAND_OVER_SECONDS)
            runtime.open_shell(instance_uuid, place)
            with files("The terminal of the guest was not handed over"):
                met, _ = listening.accept()
                with met:
                    met.settimeout(HAND_OVER_SECONDS)
                    _, handed, _, _ = socket.recv_fds(met, CHUNK_BYTES, 1)
        finally:
            place.unlink(missing_ok=True)
    if not handed:
        raise DriverError("The terminal of the guest was not handed over.")
    return handed[0]


def _carry(terminal: int, ours: socket.socket) -> None:
    """Both ways until one of them ends. A terminal whose shell is gone fails to be read."""
    try:
        with contextlib.suppress(OSError), ours, selectors.DefaultSelector() as waiting:
            waiting.register(terminal, selectors.EVENT_READ, (partial(os.read, terminal), ours.sendall))
            waiting.register(ours, selectors.EVENT_READ, (ours.recv, partial(_write, terminal)))
            while all(_pass_on(*key.data) for key, _ in waiting.select()):
                pass
    finally:
        os.close(terminal)


def _pass_on(read: Callable[[int], bytes], write: Callable[[bytes], None]) -> bool:
    """False at the end."""
    data = read(CHUNK_BYTES)
    if data:
        write(data)
    return bool(data)


def _write(terminal: int, data: bytes) -> None:
    while data:
        data = data[os.write(terminal, data) :]
