"""Base classes of plugins other than filters, weighers, drivers, memberships and sinks; the operator names them."""

from __future__ import annotations

from collections.abc import Mapping

from conductor.core.extensions.base import Extension
from conductor.core.extensions.flow_observer import FlowObserver
from conductor.core.extensions.image_converter import ImageConverter
from conductor.core.extensions.launch_form import LaunchForm
from conductor.core.extensions.panel import Panel
from conductor.core.extensions.prefilter import Prefilter
from conductor.core.extensions.quota_source import QuotaSource

# Kinds by the hook that registers them.
BY_HOOK: Mapping[str, type[Extension]] = {
    "register_prefilters": Prefilter,
    "register_quota_sources": QuotaSource,
    "register_launch_forms": LaunchForm,
    "register_panels": Panel,
    "register_image_converters": ImageConverter,
    "register_flow_observers": FlowObserver,
}
BY_KIND: Mapping[str, type[Extension]] = {one.kind: one for one in BY_HOOK.values()}

__all__ = [
    "BY_HOOK",
    "BY_KIND",
    "Extension",
    "FlowObserver",
    "ImageConverter",
    "LaunchForm",
    "Panel",
    "Prefilter",
    "QuotaSource",
]
