"""Registry of this process's plugins. Shipped plugins are imported here; workers import and describe all others."""

from __future__ import annotations

import functools
import logging

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from conductor.core.errors import NovellaError
from conductor.plugins import workers
from conductor.plugins.loading import (
    SHIPPED,
    PluginSource,
    SourceContents,
    class_of,
    collected,
    foreign_sources,
    importing,
    load,
    refuse_doubles,
    shipped_sources,
)
from conductor.plugins.proxies import stand_in
from conductor.plugins.registry import LoadParameters, PluginOptions, Registry

log = logging.getLogger(__name__)


class NotLoaded(NovellaError):
    """The plugin could not be loaded in its worker."""


@functools.cache
def registry() -> Registry:
    """Return this process's plugins, by Django's settings if they are configured, else by the defaults. Never
    raises.
    """
    try:
        options, names = _by_settings(), tuple(settings.NOVELLA_PLUGINS)
    except ImproperlyConfigured:  # no Django here
        return load(SHIPPED, PluginOptions())
    return find(LoadParameters(names, options), settings.NOVELLA_PLUGIN_LOAD_SECONDS)


@functools.cache
def imported() -> Registry:
    """Return the plugins, all imported in this process: for commands that test plugins against their contract."""
    try:
        return load(tuple(settings.NOVELLA_PLUGINS), _by_settings())
    except ImproperlyConfigured:
        return load(SHIPPED, PluginOptions())


def _by_settings() -> PluginOptions:
    return PluginOptions(
        tuple(settings.NOVELLA_ENABLED_FILTERS),
        tuple(settings.NOVELLA_ENABLED_WEIGHERS),
        settings.NOVELLA_SCHEDULER_OPTIONS,
        nova_filters=settings.NOVELLA_NOVA_FILTERS,
        nova_weighers=settings.NOVELLA_NOVA_WEIGHERS,
        nova_config_files=settings.NOVELLA_NOVA_CONFIG_FILES,
        ranges=settings.NOVELLA_WEIGHT_RANGES,
    )


def find(loads: LoadParameters, seconds: float) -> Registry:
    """Return the plugins that these settings find.

    Each foreign source is loaded in a process of its own, within `seconds`.
    """
    foreign = foreign_sources(loads.options)
    descriptions = {one.key: workers.describe(loads, one.key, seconds) for one in foreign}
    broken = frozenset(key for key, found in descriptions.items() if found.reason)
    loads = LoadParameters(loads.import_names, loads.options, broken)
    shipped = importing(loads)

    def bring(source: PluginSource, kept: SourceContents) -> SourceContents:
        return _described(source, kept) if source.key in descriptions else shipped(source, kept)

    def _described(source: PluginSource, kept: SourceContents) -> SourceContents:
        found = descriptions[source.key]
        if found.trace:
            log.error("plugin cannot be loaded: name=%s %s", source.name, found.trace)
        if found.reason:
            raise NotLoaded(found.reason)
        brought = SourceContents(warnings=list(found.warnings))
        for one in found.brought:
            real = functools.partial(class_of, loads, source, one.kind, one.name)
            brought.add(one.kind, one.name, stand_in(one, loads, real), one.options)
        refuse_doubles(brought, kept)
        return brought

    return collected([*shipped_sources(loads), *foreign], loads, bring)
