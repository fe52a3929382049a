"""The metrics that hosts report, and the scale in which they are stored."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

PERCENT = "percent"
NAMES = (
    "cpu.frequency",
    "cpu.user.time",
    "cpu.kernel.time",
    "cpu.idle.time",
    "cpu.iowait.time",
    "cpu.user.percent",
    "cpu.kernel.percent",
    "cpu.idle.percent",
    "cpu.iowait.percent",
    "cpu.percent",
    "numa.membw.max",
    "numa.membw.current",
)
# Among the capabilities that an agent reports: when its machine started, in seconds since 1970.
BOOTED_AT = "booted_at"

WEIGHT_SETTING = "weight_setting"
RATIOS_SCHEMA = {
    "type": "array",
    "items": {"type": "string"},
    "default": [],
    "description": "Metrics to weigh hosts by, each with its ratio: cpu.percent=-1.0.",
}


def kept(reported: Mapping[str, Any]) -> dict[str, float]:
    """Return the reported metrics that are known, as whole numbers. Shares from 0 to 1 become hundredths.

    A value that is not a finite number counts as not reported.
    """
    found: dict[str, float] = {}
    for name, value in reported.items():
        if name not in NAMES or isinstance(value, str | bytes):
            continue
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            continue
        if math.isfinite(number):
            found[name] = float(int(value * 100 if name.endswith(PERCENT) else value))
    return found


def ratios(settings: Iterable[str]) -> tuple[tuple[str, float], ...]:
    """Return name and ratio of each setting `name=ratio`; others are skipped."""
    found = []
    for setting in settings:
        name, _, ratio = setting.partition("=")
        try:
            number = float(ratio)
        except ValueError:
            continue
        if name and math.isfinite(number):
            found.append((name, number))
    return tuple(found)
