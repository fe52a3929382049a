"""Plugins: found and loaded, put in order, held to what they declare."""

from conductor.plugins.choosing import InForce, chosen, missing, run_order
from conductor.plugins.found import Nonsense, PluginInfo, PluginMissing, PluginOptions, Quarantined, Registry
from conductor.plugins.loading import SHIPPED, load, registry
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
    "load",
    "missing",
    "registry",
    "run_order",
]
