"""The texts of pages of the reference that list names: event types, metrics, and microversions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from conductor.core import guest_usage, metrics
from conductor.services.notifications.event_types import BY_ACTION, PHASES
from portal.api.compute.microversions import VERSIONS as COMPUTE
from portal.api.microversions import VersionTable
from portal.api.placement.microversions import VERSIONS as PLACEMENT

HEAD = "# {title}\n\nThis page lists {what}. `make reference` writes it from `{module}`.\n"
USAGE: Mapping[str, str] = {
    "cpu_seconds": "processor time of all its CPUs, in seconds",
    "memory_mb": "memory in use, in MiB",
    "read_bytes": "bytes read from its disks",
    "written_bytes": "bytes written to its disks",
    "received_bytes": "bytes received by its network cards",
    "sent_bytes": "bytes sent by its network cards",
}


def event_types() -> str:
    what = "the event types of [notifications](notifications.md) about each action on a server"
    rows = ((f"`{action}`", ", ".join(f"`{name}.{phase}`" for phase in PHASES)) for action, name in BY_ACTION.items())
    return "\n".join(
        [
            HEAD.format(title="Event types", what=what, module="conductor/services/notifications/event_types.py"),
            *_table(("action", "event types"), sorted(rows, key=lambda row: row[1])),
        ]
    )


def metric_names() -> str:
    what = "the metrics of servers and hosts that are stored"
    module = "conductor/core/guest_usage.py` and `conductor/core/metrics.py"
    return "\n".join(
        [
            HEAD.format(title="Metrics", what=what, module=module),
            "## Servers\n",
            "`GET /api/servers/UUID/metrics` and the *Metrics* tab have these counters of a server.\n",
            *_table(("metric", "meaning"), ((f"`{name}`", USAGE[name]) for name in guest_usage.NAMES)),
            "## Hosts\n",
            "Drivers report these metrics; `MetricsFilter` and `MetricsWeigher` [use them](plugin-hooks.md).\n",
            *_table(("metric", "stored as"), ((f"`{name}`", _scale(name)) for name in metrics.NAMES)),
        ]
    )


def microversions() -> str:
    what = "the microversions of the compute and placement APIs, with what each changed"
    module = "portal/api/compute/microversions.py` and `portal/api/placement/microversions.py"
    return "\n".join(
        [
            HEAD.format(title="Microversions", what=what, module=module),
            "[APIs](index.md) describes how a request selects a version.\n",
            *_versions("Compute", COMPUTE),
            *_versions("Placement", PLACEMENT),
        ]
    )


def _versions(title: str, table: VersionTable) -> Iterator[str]:
    yield f"## {title}\n"
    yield f"`{table.minimum}` to `{table.maximum}`; the newest is `latest`.\n"
    yield from _table(("version", "what it changed"), table.history)


def _scale(name: str) -> str:
    return "percent, from a share between 0 and 1" if name.endswith(metrics.PERCENT) else "whole number"


def _table(head: tuple[str, str], rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield f"| {head[0]} | {head[1]} |\n|---|---|"
    yield from (f"| {name} | {text} |" for name, text in rows)
    yield ""
