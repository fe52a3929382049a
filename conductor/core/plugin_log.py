"""A logger for each plugin: what it says there is in the log under its name, and in the catalogue beside it."""

from __future__ import annotations

import logging
from typing import Any

from conductor.core.plugin_choice import PluginKey
from conductor.core.redaction import redacted

PREFIX = "novella.plugins."
LONGEST_LINE = 1000


class _WithoutSecrets(logging.Filter):
    """What looks like a secret reaches neither the log nor the catalogue."""

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            text = record.getMessage()
        except Exception as error:
            text = f"a line that cannot be formatted ({type(error).__name__})"
        record.msg, record.args = redacted(text, LONGEST_LINE), ()
        return True


_without_secrets = _WithoutSecrets()


class PluginLog:
    """The logger of a plugin as its attribute `log`. What the plugin itself puts there takes its place."""

    def __init__(self, kind: str = "") -> None:
        self._kind = kind  # empty: the class says it

    def __get__(self, plugin: Any, owner: Any) -> logging.Logger:
        logger = logging.getLogger(f"{PREFIX}{self._kind or owner.kind}.{owner.name}")
        logger.addFilter(_without_secrets)  # once: it is there already where somebody has asked before
        return logger


def key_of(logger: str) -> PluginKey | None:
    """Which plugin has the logger of that name; None for a logger of anybody else."""
    kind, _, name = logger.removeprefix(PREFIX).partition(".")
    return (kind, name) if logger.startswith(PREFIX) and name else None
