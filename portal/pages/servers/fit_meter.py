"""Fit of the requested servers at this moment: a dry run of the scheduler, without claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.utils.translation import gettext, ngettext

from conductor.core.context import RequestContext
from conductor.core.errors import NovellaError
from conductor.services.scheduling import what_if
from conductor.services.servers.types import InstanceCreate

MOST_REMEDIES = 3
NAMELESS = "server"


def fit_meter(caller: RequestContext, requested: InstanceCreate, zones: Mapping[str, int]) -> dict[str, Any] | None:
    """Return the meter's context; None if the form itself has an error, which the launch reports.

    `zones` are the numbers of hosts that could take one such server, by availability zone.
    """
    try:
        found = what_if.launch(caller, replace(requested, name=requested.name or NAMELESS, run_uuid=""))
    except NovellaError:
        return None
    hosts = ngettext("%(count)s host", "%(count)s hosts", found.num_hosts) % {"count": found.num_hosts}
    if found.fits:
        headline = gettext("Fits now on %(fitting)s of %(hosts)s") % {"fitting": found.num_fitting, "hosts": hosts}
    elif found.placed:
        headline = gettext("%(placed)s of %(count)s servers fit now") % {
            "placed": found.placed,
            "count": found.num_instances,
        }
    else:
        headline = gettext("Doesn't fit now")
    return {
        "tone": "good" if found.fits else "bad",
        "placed": found.placed,
        "count": found.num_instances,
        "needs_confirmation": not found.fits and found.num_hosts > 0,
        "headline": headline,
        "advice": [] if found.fits else found.advice[:MOST_REMEDIES],
        "remedies": [one["text"] for one in found.fits_if[:MOST_REMEDIES]],
        "zones": [
            {"name": name, "count": count, "share": count / max(zones.values())} for name, count in zones.items()
        ],
        "age": round(found.snapshot_age_seconds),
    }
