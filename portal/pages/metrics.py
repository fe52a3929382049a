"""A server's Metrics tab: what its host has counted, read again and drawn by the page while somebody looks at it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from django.http import HttpResponse, JsonResponse
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from conductor.core.context import RequestContext
from conductor.core.errors import CellUnavailable, Conflict
from conductor.services import instances, server_facts
from conductor.services.server_facts import Diagnostics
from conductor.services.values import InstanceView
from portal.pages.access import PageRequest, signed_in
from portal.pages.amounts import megabytes, size

NANOSECONDS = 1_000_000_000
# Of what the host counted, the sums that a person asks about: ours, the list that holds them, its name there.
SUMS = (
    ("read_bytes", "disks", "read_bytes"),
    ("written_bytes", "disks", "write_bytes"),
    ("received_bytes", "nics", "rx_octets"),
    ("sent_bytes", "nics", "tx_octets"),
)


@require_safe
@signed_in
def figures(request: PageRequest, server_uuid: str) -> HttpResponse:
    """The counters of this moment, for the page's script. Raises NotFound."""
    found = _asked(request.asker, instances.get(request.asker, server_uuid))
    if isinstance(found, str):
        return JsonResponse({"why_none": found})
    return JsonResponse({"at": time.time(), **_counters(found)})


def metrics_of(asker: RequestContext, server: InstanceView) -> dict[str, Any]:
    """Each figure in words as it stands, or in one sentence why there are none."""
    found = _asked(asker, server)
    if isinstance(found, str):
        return {"rows": [], "why_none": found}
    told = _counters(found)
    memory = f"{megabytes(told['memory_mb'])} / {megabytes(told['memory_limit_mb'])}" if "memory_mb" in told else ""
    seconds = gettext("%(seconds)s s of processor time") % {"seconds": round(told.get("cpu_seconds", 0))}
    disks = gettext("%(one)s read, %(two)s written")
    network = gettext("%(one)s received, %(two)s sent")
    shown = (
        ("cpu", gettext("Processors"), seconds if "cpu_seconds" in told else ""),
        ("memory", gettext("Memory"), memory),
        ("disk", gettext("Disks"), _pair(told, "read_bytes", "written_bytes", disks)),
        ("network", gettext("Network"), _pair(told, "received_bytes", "sent_bytes", network)),
    )
    return {
        "rows": [{"id": key, "title": title, "words": words} for key, title, words in shown if words],
        "why_none": "",
        "figures_url": reverse("server-figures", args=[server.uuid]),
    }


def _asked(asker: RequestContext, server: InstanceView) -> Diagnostics | str:
    try:
        found = server_facts.diagnostics(asker, server.uuid)
    except Conflict:
        return "A guest that does not run has no figures."
    except CellUnavailable as error:
        return error.message
    return found if found.figures else "Its host does not count what this guest does."


def _counters(found: Diagnostics) -> dict[str, float]:
    """All of a kind added up; what nobody counted is left out."""
    told = found.figures
    used = [cpu["time"] for cpu in told.get("cpus", ()) if cpu.get("time") is not None]
    sums = {name: _sum(told.get(kind, ()), theirs) for name, kind, theirs in SUMS}
    counters: dict[str, float] = {name: amount for name, amount in sums.items() if amount is not None}
    counters |= {"cpu_seconds": sum(used) / NANOSECONDS, "vcpus": found.view.flavor.vcpus} if used else {}
    memory = told.get("memory", {})
    if memory.get("used") is not None:
        counters |= {
            "memory_mb": memory["used"],
            "memory_limit_mb": memory.get("maximum") or found.view.flavor.memory_mb,
        }
    return counters


def _sum(rows: Iterable[Mapping[str, Any]], name: str) -> int | None:
    counted = [row[name] for row in rows if row.get(name) is not None]
    return sum(counted) if counted else None


def _pair(told: Mapping[str, float], one: str, two: str, words: str) -> str:
    if one not in told and two not in told:
        return ""
    return words % {"one": size(told.get(one, 0)), "two": size(told.get(two, 0))}
