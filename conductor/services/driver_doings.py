"""What hosts tell of their drivers goes into the catalogue of plugins: calls, errors and own lines."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from typing import Any

from django.db import DatabaseError, InterfaceError

from conductor.core.driver_doings import DRIVER, MOST_CALLS
from conductor.core.redaction import redacted
from conductor.core.scheduling.watching import Use
from conductor.plugins.notes import AT_MOST, FAULT, LINE, LONGEST_PLACE, LONGEST_TEXT, Note
from conductor.rpc.messages import HostReported
from conductor.scheduler import plugin_notes
from conductor.scheduler.plugin_watch import plugin_watch

log = logging.getLogger(__name__)

TOLD = (FAULT, LINE)


def store(message: HostReported) -> None:
    """Never raises: what is not worth a report is not worth its failure either."""
    told = message.doings
    if not told or not message.driver:
        return
    try:
        plugin_notes.keep({(DRIVER, message.driver): list(_notes(told))})
    except (DatabaseError, InterfaceError):
        log.exception("what a driver said cannot be stored now: host=%s", message.host)
    milliseconds = [length for length in _list(told, "milliseconds") if _is_amount(length)][:MOST_CALLS]
    use = Use(DRIVER, message.driver, is_trusted=True, turns=len(milliseconds), milliseconds=milliseconds)
    use.faults = int(told["faults"]) if _is_amount(told.get("faults")) else 0
    if use.turns or use.faults:
        plugin_watch.note([use])


def _notes(told: Mapping[str, Any]) -> Iterator[Note]:
    """A driver may be foreign, and its host be of another release: what has not the shape of a note is left out."""
    for one in _list(told, "notes")[: len(TOLD) * AT_MOST]:
        if not isinstance(one, Mapping) or one.get("source") not in TOLD or not _is_amount(one.get("at")):
            continue
        words = {name: str(one.get(name, "")) for name in ("text", "level", "place")}
        times = int(one["times"]) if _is_amount(one.get("times")) else 1
        yield Note(
            one["source"],
            redacted(words["text"], LONGEST_TEXT),
            float(one["at"]),
            level=words["level"][:16],
            place=words["place"][:LONGEST_PLACE],
            times=max(times, 1),
        )


def _list(told: Mapping[str, Any], name: str) -> list[Any]:
    found = told.get(name)
    return found if isinstance(found, list) else []


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e11 and math.isfinite(value)
