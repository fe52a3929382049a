"""Runs commands inside a real guest: a root shell on its serial console."""

from __future__ import annotations

import itertools
import re
import socket
from pathlib import Path

from compute_drivers.libvirt.embedded import short_path
from tests.waiting import Stopwatch, wait_until

SECONDS = 240.0
ANSWER_SECONDS = 15.0  # then the line is joined anew, for a guest that missed the question
NUMBERS = itertools.count(1)


class SerialLine:
    """The serial line of one guest on this machine; it is joined anew for each question, as guests come and go."""

    def __init__(self, state_dir: Path, instance_uuid: str) -> None:
        self._lines, self._uuid = short_path(state_dir / "lines"), instance_uuid

    def ask(self, command: str, seconds: float = SECONDS) -> str:
        """Return the output of a command in the guest's shell. A booting guest misses the first attempts."""
        heard = ""

        def try_once() -> list[str]:
            nonlocal heard
            try:
                found, heard = self._try(command)
            except OSError:  # it is only starting
                return []
            return [] if found is None else [found]

        answers: list[str] = wait_until(
            f"an answer to {command!r}", try_once, seconds, pause=0.2, details=lambda: repr(heard[-2000:])
        )
        return answers[0]

    def number(self, command: str) -> int:
        return int(self.ask(command))

    def _path(self) -> Path:
        """Return the path of the socket. A guest with an account of its own has a folder."""
        own = self._lines / self._uuid
        return own / "tty" if own.is_dir() else own.with_name(f"{self._uuid}.tty")

    def _try(self, command: str) -> tuple[str | None, str]:
        """Return the text between two marks that the shell computes, so that the echo of the line does not have them.

        First it sends an interrupt, because the guest may have received half of what was typed while it booted.
        """
        number = next(NUMBERS)
        begin, end = f"@@{number + 1000}", f"@@{number + 2000}"
        line = f"\x03\necho @@$(({number}+1000)); {command}; echo; echo @@$(({number}+2000))\n"
        heard = b""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as joined:
            joined.settimeout(0.5)
            joined.connect(str(self._path()))
            joined.sendall(line.encode())
            watch = Stopwatch()
            while watch.seconds < ANSWER_SECONDS and end.encode() not in heard:
                try:
                    news = joined.recv(4096)
                except TimeoutError:
                    continue
                if not news:
                    break
                heard += news
        text = heard.decode(errors="replace").replace("\r", "")
        found = re.search(rf"^{begin}\n(.*?)^{end}$", text, re.DOTALL | re.MULTILINE)
        return (found[1].strip() if found else None), text
