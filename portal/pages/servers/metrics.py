"""A server's Metrics tab: its host's counters now, drawn by the page, and in the last hours."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.http import HttpResponse, JsonResponse
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from conductor.core.context import RequestContext
from conductor.core.errors import CellUnavailable, Conflict
from conductor.core.guest_usage import usage_of
from conductor.services.consoles import diagnostics
from conductor.services.consoles.diagnostics import Diagnostics
from conductor.services.servers import guest_metrics, instances
from conductor.services.servers.types import InstanceData
from portal.pages.amounts import megabytes, size, whole
from portal.pages.permissions import PageRequest, signed_in
from portal.pages.servers.metric_charts import History, history


@require_safe
@signed_in
def figures(request: PageRequest, server_uuid: str) -> HttpResponse:
    """Return the current counters, for the page's script. Raises NotFound."""
    found = _asked(request.caller, instances.get(request.caller, server_uuid))
    if isinstance(found, str):
        return JsonResponse({"why_none": found})
    return JsonResponse({"at": time.time(), **_counters(found)})


def metrics_of(caller: RequestContext, server: InstanceData) -> dict[str, Any]:
    """Return each metric in words, or why there are none; and the stored ones of the last hours."""
    kept = {"history": _history(caller, server), "keep_days": settings.NOVELLA_KEEP_METRICS_DAYS}
    found = _asked(caller, server)
    if isinstance(found, str):
        return {"rows": [], "why_none": found, **kept}
    reported = _counters(found)
    memory = (
        f"{megabytes(reported['memory_mb'])} / {megabytes(reported['memory_limit_mb'])}"
        if "memory_mb" in reported
        else ""
    )
    seconds = gettext("%(seconds)s s of CPU time") % {"seconds": whole(reported.get("cpu_seconds", 0))}
    disks = gettext("%(one)s read, %(two)s written")
    network = gettext("%(one)s received, %(two)s sent")
    shown = (
        ("cpu", gettext("Processors"), seconds if "cpu_seconds" in reported else ""),
        ("memory", gettext("Memory"), memory),
        ("disk", gettext("Disks"), _pair(reported, "read_bytes", "written_bytes", disks)),
        ("network", gettext("Network"), _pair(reported, "received_bytes", "sent_bytes", network)),
    )
    return {
        "rows": [{"id": key, "title": title, "words": words} for key, title, words in shown if words],
        "why_none": "",
        **kept,
        "figures_url": reverse("server-figures", args=[server.uuid]),
    }


def _history(caller: RequestContext, server: InstanceData) -> History | None:
    return history(guest_metrics.samples(caller, server.uuid), server.flavor.vcpus, server.flavor.memory_mb)


def _asked(caller: RequestContext, server: InstanceData) -> Diagnostics | str:
    try:
        found = diagnostics.diagnostics(caller, server.uuid)
    except Conflict:
        return "Start the server to see metrics."
    except CellUnavailable as error:
        return error.message
    return found if found.figures else "The server's host doesn't report metrics."


def _counters(found: Diagnostics) -> dict[str, float]:
    """Return the counters, and the numbers of processors and memory that they relate to."""
    reported = found.figures
    known = usage_of(reported)
    if "cpu_seconds" in known:
        known["vcpus"] = found.view.flavor.vcpus
    if "memory_mb" in known:
        known["memory_limit_mb"] = reported.get("memory", {}).get("maximum") or found.view.flavor.memory_mb
    return known


def _pair(reported: Mapping[str, float], one: str, two: str, words: str) -> str:
    if one not in reported and two not in reported:
        return ""
    return words % {"one": size(reported.get(one, 0)), "two": size(reported.get(two, 0))}
