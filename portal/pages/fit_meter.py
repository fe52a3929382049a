"""Whether what a launch form asks for fits at this moment: asked of the scheduler, with nothing claimed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from conductor.core.context import RequestContext
from conductor.core.errors import NovellaError
from conductor.services import what_if
from conductor.services.values import BuildWish

MOST_REMEDIES = 3
NAMELESS = "server"


def fit_meter(asker: RequestContext, wish: BuildWish) -> dict[str, Any] | None:
    """What the meter says; None where the launch itself has something against the form, which says so there."""
    try:
        found = what_if.launch(asker, replace(wish, name=wish.name or NAMELESS, run_uuid=""))
    except NovellaError:
        return None
    hosts = f"{found.num_hosts} host{'' if found.num_hosts == 1 else 's'}"
    if found.fits:
        headline = f"Fits now: {found.num_fitting} of {hosts}"
    elif found.placed:
        headline = f"Fits for {found.placed} of {found.num_instances} now"
    else:
        headline = "Does not fit now"
    return {
        "tone": "good" if found.fits else "bad",
        "headline": headline,
        "advice": [] if found.fits else found.advice[:MOST_REMEDIES],
        "remedies": [one["text"] for one in found.fits_if[:MOST_REMEDIES]],
    }
