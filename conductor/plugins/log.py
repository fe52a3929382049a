"""Notes about single plugins for operators: their errors, their log lines, and different decisions of shadow plugins.

They are kept in memory, up to a limit, until they are stored.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass, replace
from types import TracebackType

from conductor.core.plugin_choice import PluginKey
from conductor.core.plugin_log import PREFIX, key_of
from conductor.core.redaction import redacted
from conductor.core.scheduling.watching import PluginException

FAULT, LINE, DIFFERENCE = "fault", "line", "difference"
SOURCES = (FAULT, LINE, DIFFERENCE)
AT_MOST = 50  # per source, per plugin
PLUGINS_AT_MOST = 500  # a logger may have any name
LONGEST_TEXT = 300
LONGEST_PLACE = 200


@dataclass(frozen=True)
class Note:
    """One note, which came `times` in a row. `at` is this machine's clock, and `level` that of a log line.

    `place` is where a plugin's code failed, or the workflow in which a shadow plugin would have decided otherwise.
    """

    source: str
    text: str
    at: float
    level: str = ""
    place: str = ""
    times: int = 1

    def is_again(self, other: Note) -> bool:
        return (self.source, self.text, self.level, self.place) == (other.source, other.text, other.level, other.place)


class Notes(logging.Handler):
    """Buffer of notes; one per process."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._kept: dict[tuple[PluginKey, str], deque[Note]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Handle a line of a plugin's own logger. Never raises, as formatting a foreign line may fail."""
        key = key_of(record.name)
        if key is None:
            return
        try:
            text = record.getMessage()
        except Exception as error:
            text = f"a line that cannot be formatted ({type(error).__name__})"
        raised = record.exc_info[0] if record.exc_info else None
        if raised is not None:
            text = f"{text} ({raised.__name__})"
        self.add(key, Note(LINE, text, record.created, level=record.levelname.lower()))

    def fault(self, key: PluginKey, text: str, exception: BaseException | None = None) -> None:
        """Note an error of the plugin. A foreign exception is shown by its type, and where it was raised."""
        self.add(key, Note(FAULT, text, time.time(), place=place_of(exception)))

    def difference(self, key: PluginKey, text: str, run_uuid: str) -> None:
        self.add(key, Note(DIFFERENCE, text, time.time(), place=run_uuid))

    def add(self, key: PluginKey, note: Note) -> None:
        note = replace(note, text=redacted(note.text, LONGEST_TEXT), place=note.place[:LONGEST_PLACE])
        with self._lock:
            found = self._kept.get((key, note.source))
            if found is None:
                if len(self._kept) >= PLUGINS_AT_MOST:
                    return
                found = self._kept[key, note.source] = deque(maxlen=AT_MOST)
            if found and found[-1].is_again(note):
                note = replace(note, times=found.pop().times + note.times)
            found.append(note)

    def take_of(self, key: PluginKey) -> list[Note]:
        """Take the notes of one plugin out of the buffer."""
        with self._lock:
            return [note for source in SOURCES for note in self._kept.pop((key, source), ())]

    def take(self) -> dict[PluginKey, list[Note]]:
        """Take all notes out of the buffer, oldest first."""
        with self._lock:
            kept, self._kept = self._kept, {}
        taken: dict[PluginKey, list[Note]] = {}
        for (key, _), found in kept.items():
            taken.setdefault(key, []).extend(found)
        return taken


def place_of(exception: BaseException | None) -> str:
    """Return module, line and function in which an exception was raised, without paths."""
    if isinstance(exception, PluginException):
        return exception.place
    trace: TracebackType | None = exception.__traceback__ if exception is not None else None
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return ""
    frame = trace.tb_frame
    return f"{frame.f_globals.get('__name__', '')}:{trace.tb_lineno} in {frame.f_code.co_name}"


notes = Notes()


def listen() -> None:
    """Attach the handler to the loggers of plugins; idempotent."""
    logger = logging.getLogger(PREFIX.rstrip("."))
    if notes not in logger.handlers:
        logger.addHandler(notes)
