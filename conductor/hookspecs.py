"""The plugin contract: every hook that Novella calls, when it is called and what it returns.

A plugin is a module or object with functions of these names marked by `hookimpl`, found through the entry-point group
`novella`. All that is found is used, unless the operator's option names what runs, and in which order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pluggy

from conductor.core.compute_driver import ComputeDriver
from conductor.core.extensions import FlowObserver, ImageConverter, LaunchForm, Panel, Prefilter, QuotaSource
from conductor.core.filter import Filter
from conductor.core.membership import Membership
from conductor.core.notification_sink import NotificationSink
from conductor.core.weigher import Weigher

PROJECT = "novella"

# The supported versions of this contract, and what each introduced.
CONTRACTS: Mapping[int, str] = {
    1: "Filters, weighers, compute drivers and memberships.",
    2: "Notification sinks; plugins may name the versions that they were made for; unknown hooks are refused.",
    3: "Pre-filters, quota sources, launch forms, panels, image converters and observers of workflows.",
    4: "A logger for each filter, weigher, sink and extension (`log`), whose last lines the catalogue shows.",
}

# Deprecated attributes, by the name of the plugin's class: attribute → what to do instead. Each is
# supported for two more contracts after its deprecation, and every plugin that defines it gets a warning.
DEPRECATED: Mapping[str, Mapping[str, str]] = {}

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


@hookspec
def register_prefilters() -> Sequence[type[Prefilter]]:  # type: ignore[empty-body]
    """Called once at start-up. Return classes that turn a request into demands on placement."""


@hookspec
def register_quota_sources() -> Sequence[type[QuotaSource]]:  # type: ignore[empty-body]
    """Called once at start-up. Return classes that give limits of projects."""


@hookspec
def register_launch_forms() -> Sequence[type[LaunchForm]]:  # type: ignore[empty-body]
    """Called once at start-up. Return classes that add fields to the launch of a server."""


@hookspec
def register_panels() -> Sequence[type[Panel]]:  # type: ignore[empty-body]
    """Called once at start-up. Return classes that add a card to the page of a server or a host."""


@hookspec
def register_image_converters() -> Sequence[type[ImageConverter]]:  # type: ignore[empty-body]
    """Called once at start-up. Return classes that read and write further formats of disks."""


@hookspec
def register_flow_observers() -> Sequence[type[FlowObserver]]:  # type: ignore[empty-body]
    """Called once at start-up. Return classes that are notified of events of workflows and servers."""
