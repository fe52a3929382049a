"""Counts how often the agent's process ended while a command was carried out, so that no driver ends it for ever.

The counts are plain files: they outlive a process that is killed, and cost no flush of the disk.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from conductor.compute.host_journal import KEEP_ANSWERS_SECONDS

log = logging.getLogger(__name__)


class Attempts:
    """The commands of one host that are being carried out, a file in `folder` for each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            for path in folder.iterdir():
                if path.stat().st_mtime < time.time() - KEEP_ANSWERS_SECONDS:  # its command never came again
                    path.unlink()

    def begin(self, step_key: str) -> int:
        """How often the process ended before the command had an answer; 0 where that cannot be known."""
        path, ended = self._path(step_key), 0
        try:
            if path.exists():
                ended = int(path.read_text() or 0)
            path.write_text(str(ended + 1))
        except (OSError, ValueError) as error:
            log.warning("attempts cannot be counted: %s: %s", type(error).__name__, error)
        return ended

    def end(self, step_key: str) -> None:
        """The process lives on."""
        with suppress(OSError):
            self._path(step_key).unlink(missing_ok=True)

    def _path(self, step_key: str) -> Path:
        return self._folder / quote(step_key, safe="")
