"""Plugins: discovery, loading, ordering and validation."""

from conductor.plugins.discovery import imported, registry
from conductor.plugins.loading import SHIPPED, load
from conductor.plugins.ordering import InForce, chosen, missing, run_order
from conductor.plugins.registry import Nonsense, PluginInfo, PluginMissing, PluginOptions, Quarantined, Registry
from conductor.plugins.stand_ins import declared
from conductor.plugins.system_checks import check_plugins

__all__ = [
    "SHIPPED",
    "InForce",
    "Nonsense",
    "PluginInfo",
    "PluginMissing",
    "PluginOptions",
    "Quarantined",
    "Registry",
    "check_plugins",
    "chosen",
    "declared",
    "imported",
    "load",
    "missing",
    "registry",
    "run_order",
]
