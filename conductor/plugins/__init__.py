"""Plugins: discovery, loading, ordering and validation."""

from conductor.plugins.discovery import imported, registry
from conductor.plugins.loading import SHIPPED, load
from conductor.plugins.ordering import ActivePlugins, chosen, missing, run_order
from conductor.plugins.proxies import declared
from conductor.plugins.registry import (
    DisabledPlugin,
    InvalidHookResult,
    PluginInfo,
    PluginMissing,
    PluginOptions,
    Registry,
)
from conductor.plugins.system_checks import check_plugins

__all__ = [
    "SHIPPED",
    "ActivePlugins",
    "DisabledPlugin",
    "InvalidHookResult",
    "PluginInfo",
    "PluginMissing",
    "PluginOptions",
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
