"""The plugin contract: every hook that Novella calls, when it fires and what to return.

A plugin is a module or object with functions of these names marked by `hookimpl`, found through the
entry-point group `novella`. What is found is used, unless the operator's option names what runs, and in which order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pluggy

from conductor.core.compute_driver import ComputeDriver
from conductor.core.filter import Filter
from conductor.core.membership import Membership
from conductor.core.notification_sink import NotificationSink
from conductor.core.weigher import Weigher

PROJECT = "novella"

# The versions of this contract that plugins may be made for, and what each brought.
CONTRACTS: Mapping[int, str] = {
    1: "Filters, weighers, compute drivers and memberships.",
    2: "Notification sinks; plugins may name the versions that they were made for; unknown hooks are refused.",
}

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def register_filters() -> Sequence[type[Filter]]:  # type: ignore[empty-body]
    """Called once at start-up. Return filter classes; the option `enabled_filters` says which run, in which order."""


@hookspec
def register_weighers() -> Sequence[type[Weigher]]:  # type: ignore[empty-body]
    """Called once at start-up. Return weigher classes; the option `enabled_weighers` decides which run."""


@hookspec
def register_compute_drivers() -> Mapping[str, type[ComputeDriver]]:  # type: ignore[empty-body]
    """Called once at start-up. Return driver name → driver class; a compute host names the one that it uses."""


@hookspec
def register_notification_sinks() -> Sequence[type[NotificationSink]]:  # type: ignore[empty-body]
    """Called once at start-up. Return sink classes; the option `NOVELLA_NOTIFICATION_SINKS` names those in use."""


@hookspec
def register_memberships() -> Mapping[str, type[Membership]]:  # type: ignore[empty-body]
    """Called once at start-up. Return URL scheme → membership class; the option `membership_url` names one."""
