"""Limits that plugins say, laid over those that are stored: of two the lower counts."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Collection, Mapping
from typing import Any

from conductor.core.extensions import QuotaSource
from conductor.scheduler.extensions import ExtensionFailed, InUse, in_use

UNLIMITED = -1
KEPT_SECONDS = 60.0
MOST_KEPT = 10_000
_lock = threading.Lock()
_answers: dict[tuple[int, str], tuple[float, Mapping[str, int]]] = {}  # source and project → when, what


def tightened(project_id: str, stored: Mapping[str, int]) -> dict[str, int]:
    """The limits with what sources say. One that fails is taken at its last word, and at none where it never spoke."""
    limits = dict(stored)
    for one in in_use(QuotaSource.kind):
        for resource, said in _said(one, project_id, stored).items():
            limits[resource] = _lower(limits[resource], said)
    return limits


def _said(one: InUse, project_id: str, stored: Mapping[str, int]) -> Mapping[str, int]:
    key, now = (id(one), project_id), time.monotonic()
    at, answer = _answers.get(key, (0.0, {}))
    if at and now - at < KEPT_SECONDS:
        return answer
    try:
        asked = functools.partial(getattr(one.extension, QuotaSource.method), project_id)
        answer = dict(one.ask(asked, functools.partial(_wrong, stored)))
    except ExtensionFailed:
        pass
    with _lock:
        if len(_answers) >= MOST_KEPT:
            _answers.clear()
        _answers[key] = now, answer
    return answer


def _wrong(known: Collection[str], answer: Any) -> str:
    if not isinstance(answer, Mapping):
        return f"said {type(answer).__name__} where limits by resource belong"
    for resource, limit in answer.items():
        if resource not in known:
            return f"said a limit of {str(resource)[:40]}, which is no resource"
        if type(limit) is not int or limit < UNLIMITED:
            return f"said a limit of {resource} that is no whole number from -1"
    return ""


def _lower(one: int, other: int) -> int:
    if UNLIMITED in (one, other):
        return max(one, other)
    return min(one, other)
