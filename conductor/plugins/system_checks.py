"""System checks of plugins for `novella check`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core import checks

from conductor.core.errors import Invalid
from conductor.core.filter import Filter
from conductor.core.weigher import Weigher
from conductor.plugins import extensions
from conductor.plugins.discovery import registry
from conductor.plugins.options import nearest, require_options
from conductor.plugins.ordering import is_range, missing
from conductor.plugins.registry import Registry
from conductor.plugins.sinks import FIELD, sink_of


def check_plugins(**kwargs: Any) -> list[checks.CheckMessage]:
    """Return quarantined plugins, names that no plugin registers, and options in the settings that are not valid."""
    found = registry()
    messages: list[checks.CheckMessage] = [
        checks.Warning(f"Plugin {one.name} of {one.distribution} is not used: {one.reason}.", id="conductor.W001")
        for one in found.quarantined
    ]
    hint = "Install the plugin that brings it, or take the name out of the list."
    messages += [
        checks.Warning(f"No plugin brings {name}, which the settings enable.", hint=hint, id="conductor.W002")
        for name in missing(found)
    ]
    messages += [
        checks.Warning(f"Plugin {one.name} of {one.distribution}: {line}.", id="conductor.W006")
        for one in found.plugins
        for line in one.warnings
    ]
    return [*messages, *_options(found), *_ranges(found), *_sinks(found), *_extensions(found)]


def _options(found: Registry) -> Iterator[checks.CheckMessage]:
    values = found.options.values
    plugins: tuple[Filter | Weigher, ...] = (*found.loaded_filters, *found.loaded_weighers)
    known = {key for one in plugins for key in one.options_schema}
    for key in sorted(set(values) - known):
        text = f"NOVELLA_SCHEDULER_OPTIONS: no plugin has an option {key}. {nearest(key, known)}"
        yield checks.Warning(text.strip(), id="conductor.W003")
    for one in plugins:
        for key in sorted(set(values) & set(one.options_schema)):
            try:
                require_options(one, {key: values[key]}, "NOVELLA_SCHEDULER_OPTIONS")
            except Invalid as error:
                yield checks.Warning(f"NOVELLA_SCHEDULER_OPTIONS: {error.message}", id="conductor.W003")


def _ranges(found: Registry) -> Iterator[checks.CheckMessage]:
    known = {one.name for one in found.loaded_weighers}
    for name, ends in sorted(found.options.ranges.items()):
        if name not in known:
            text = f"NOVELLA_WEIGHT_RANGES: no plugin brings a weigher {name}. {nearest(name, known)}"
            yield checks.Warning(text.strip(), id="conductor.W007")
        elif not is_range(ends):
            text = f"NOVELLA_WEIGHT_RANGES: the range of {name} is two numbers, the lower one first. It is not used."
            yield checks.Warning(text, id="conductor.W007")


def _sinks(found: Registry) -> Iterator[checks.CheckMessage]:
    for name, options in settings.NOVELLA_NOTIFICATION_SINKS.items():
        try:
            sink_of(found.sinks, name, options)
        except Invalid as error:
            yield checks.Warning(f"{FIELD}: {error.message}", id="conductor.W004")


def _extensions(found: Registry) -> Iterator[checks.CheckMessage]:
    for kind, wanted in settings.NOVELLA_EXTENSIONS.items():
        try:
            extensions.require_kind(kind)
            for name, options in wanted.items():
                extensions.made(found, kind, name, options)
        except Invalid as error:
            yield checks.Warning(f"{error.details['field']}: {error.message}", id="conductor.W005")
