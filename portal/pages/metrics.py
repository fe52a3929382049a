"""A server's Metrics tab: what its host has counted; now, drawn by the page while somebody looks, and lately."""

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
from conductor.core.guest_figures import counters
from conductor.services import guest_counts, instances, server_facts
from conductor.services.server_facts import Diagnostics
from conductor.services.values import InstanceView
from portal.pages.access import PageRequest, signed_in
from portal.pages.amounts import megabytes, size, whole
from portal.pages.metric_charts import History, history


@require_safe
@signed_in
def figures(request: PageRequest, server_uuid: str) -> HttpResponse:
    """The counters of this moment, for the page's script. Raises NotFound."""
    found = _asked(request.asker, instances.get(request.asker, server_uuid))
    if isinstance(found, str):
        return JsonResponse({"why_none": found})
    return JsonResponse({"at": time.time(), **_counters(found)})


def metrics_of(asker: RequestContext, server: InstanceView) -> dict[str, Any]:
    """Each figure in words as it stands, or in one sentence why there are none; and what was kept of the last hours."""
    kept = {"history": _history(asker, server), "keep_days": settings.NOVELLA_KEEP_METRICS_DAYS}
    found = _asked(asker, server)
    if isinstance(found, str):
        return {"rows": [], "why_none": found, **kept}
    told = _counters(found)
    memory = f"{megabytes(told['memory_mb'])} / {megabytes(told['memory_limit_mb'])}" if "memory_mb" in told else ""
    seconds = gettext("%(seconds)s s of processor time") % {"seconds": whole(told.get("cpu_seconds", 0))}
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
        **kept,
        "figures_url": reverse("server-figures", args=[server.uuid]),
    }


def _history(asker: RequestContext, server: InstanceView) -> History | None:
    return history(guest_counts.samples(asker, server.uuid), server.flavor.vcpus, server.flavor.memory_mb)


def _asked(asker: RequestContext, server: InstanceView) -> Diagnostics | str:
    try:
        found = server_facts.diagnostics(asker, server.uuid)
    except Conflict:
        return "A guest that does not run has no figures."
    except CellUnavailable as error:
        return error.message
    return found if found.figures else "Its host does not count what this guest does."


def _counters(found: Diagnostics) -> dict[str, float]:
    """What was counted, and of how much: there are that many processors, and that much memory."""
    told = found.figures
    known = counters(told)
    if "cpu_seconds" in known:
        known["vcpus"] = found.view.flavor.vcpus
    if "memory_mb" in known:
        known["memory_limit_mb"] = told.get("memory", {}).get("maximum") or found.view.flavor.memory_mb
    return known


def _pair(told: Mapping[str, float], one: str, two: str, words: str) -> str:
    if one not in told and two not in told:
        return ""
    return words % {"one": size(told.get(one, 0)), "two": size(told.get(two, 0))}
