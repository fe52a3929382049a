"""Driver reports of hosts, stored in the plugin catalog: calls, errors and log lines."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from typing import Any

from django.db import DatabaseError, InterfaceError

from conductor.core.compute_driver import DRIVER, MAX_CALLS_PER_REPORT
from conductor.core.redaction import redacted
from conductor.core.scheduling.watching import PluginUse
from conductor.plugins.log import AT_MOST, FAULT, LINE, LONGEST_PLACE, LONGEST_TEXT, Note
from conductor.rpc.messages import HostReported
from conductor.scheduler import plugin_health
from conductor.scheduler.plugin_health import plugin_watch

log = logging.getLogger(__name__)

REPORTED = (FAULT, LINE)


def store(message: HostReported) -> None:
    """Store a report. Never raises: a failure here must not fail the host's report."""
    sentence = message.driver_statistics
    if not sentence or not message.driver:
        return
    try:
        plugin_health.keep({(DRIVER, message.driver): list(_notes(sentence))})
    except (DatabaseError, InterfaceError):
        log.exception("a driver's report cannot be stored now: host=%s", message.host)
    milliseconds = [length for length in _list(sentence, "milliseconds") if _is_amount(length)][:MAX_CALLS_PER_REPORT]
    use = PluginUse(DRIVER, message.driver, is_trusted=True, turns=len(milliseconds), milliseconds=milliseconds)
    use.faults = int(sentence["faults"]) if _is_amount(sentence.get("faults")) else 0
    if use.turns or use.faults:
        plugin_watch.note([use])


def _notes(sentence: Mapping[str, Any]) -> Iterator[Note]:
    """Yield valid notes; others are skipped, as the driver may be foreign, and its host of another release."""
    for one in _list(sentence, "notes")[: len(REPORTED) * AT_MOST]:
        if not isinstance(one, Mapping) or one.get("source") not in REPORTED or not _is_amount(one.get("at")):
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


def _list(sentence: Mapping[str, Any], name: str) -> list[Any]:
    found = sentence.get(name)
    return found if isinstance(found, list) else []


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e11 and math.isfinite(value)
