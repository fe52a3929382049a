"""Whether what a launch form asks for fits at this moment: asked of the scheduler, with nothing claimed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.utils.translation import gettext, ngettext

from conductor.core.context import RequestContext
from conductor.core.errors import NovellaError
from conductor.services import what_if
from conductor.services.values import BuildWish

MOST_REMEDIES = 3
NAMELESS = "server"


def fit_meter(asker: RequestContext, wish: BuildWish, zones: Mapping[str, int]) -> dict[str, Any] | None:
    """What the meter says; None where the launch itself has something against the form, which says so there.

    `zones` are the hosts that could take one such server, by availability zone.
    """
    try:
        found = what_if.launch(asker, replace(wish, name=wish.name or NAMELESS, run_uuid=""))
    except NovellaError:
        return None
    hosts = ngettext("%(count)s host", "%(count)s hosts", found.num_hosts) % {"count": found.num_hosts}
    if found.fits:
        headline = gettext("Fits now: %(fitting)s of %(hosts)s") % {"fitting": found.num_fitting, "hosts": hosts}
    elif found.placed:
        headline = gettext("Fits for %(placed)s of %(count)s now") % {
            "placed": found.placed,
            "count": found.num_instances,
        }
    else:
        headline = gettext("Does not fit now")
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
