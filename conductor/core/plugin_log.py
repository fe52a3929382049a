"""A logger for each plugin: what it says there is in the log under its name, and in the catalogue beside it."""

from __future__ import annotations

import logging
from typing import Any

from conductor.core.plugin_choice import PluginKey

PREFIX = "novella.plugins."


class PluginLog:
    """The logger of a plugin as its attribute `log`. What the plugin itself puts there takes its place."""

    def __init__(self, kind: str = "") -> None:
        self._kind = kind  # empty: the class says it

    def __get__(self, plugin: Any, owner: Any) -> logging.Logger:
        return logging.getLogger(f"{PREFIX}{self._kind or owner.kind}.{owner.name}")


def key_of(logger: str) -> PluginKey | None:
    """Which plugin has the logger of that name; None for a logger of anybody else."""
    kind, _, name = logger.removeprefix(PREFIX).partition(".")
    return (kind, name) if logger.startswith(PREFIX) and name else None
