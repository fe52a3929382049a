"""Waiting for a workflow where a documented answer comes when the work is done."""

from __future__ import annotations

import threading
import time

from conductor.core.states import FINAL_RUN_STATES
from conductor.journal.models import WorkflowRun

# Requests of this process that wait at once: half of the web threads, so that others are answered meanwhile.
MOST_WAITING = 8
SHORTEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.02, 0.5
_places = threading.BoundedSemaphore(MOST_WAITING)


def end_of(alias: str, run_uuid: str, seconds: float) -> str | None:
    """The final state of a run of the database `alias`.

    None when it has none after `seconds`, or when MOST_WAITING requests of this process wait already. The caller has no
    transaction open: between two looks none is.
    """
    if not _places.acquire(blocking=False):
        return _final_state(alias, run_uuid)
    try:
        return _await(alias, run_uuid, time.monotonic() + seconds)
    finally:
        _places.release()


def _await(alias: str, run_uuid: str, until: float) -> str | None:
    pause = SHORTEST_PAUSE_SECONDS
    while (state := _final_state(alias, run_uuid)) is None and (left := until - time.monotonic()) > 0:
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)
    return state


def _final_state(alias: str, run_uuid: str) -> str | None:
    states = WorkflowRun.objects.using(alias).filter(uuid=run_uuid, state__in=FINAL_RUN_STATES)
    return states.values_list("state", flat=True).first()
