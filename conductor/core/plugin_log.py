"""A logger for each plugin: its lines appear in the log under the plugin's name, and in the plugin catalogue."""

from __future__ import annotations

import logging
from typing import Any

from conductor.core.plugin_choice import PluginKey
from conductor.core.redaction import redacted

PREFIX = "novella.plugins."
LONGEST_LINE = 1000


class _WithoutSecrets(logging.Filter):
    """Redacts text that looks like a secret from both the log and the catalogue."""

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            text = record.getMessage()
        except Exception as error:
            text = f"a line that cannot be formatted ({type(error).__name__})"
        record.msg, record.args = redacted(text, LONGEST_LINE), ()
        return True


_without_secrets = _WithoutSecrets()


class PluginLog:
    """Descriptor of a plugin's logger, as its attribute `log`. A value that the plugin sets itself replaces it."""

    def __init__(self, kind: str = "") -> None:
        self._kind = kind  # empty: read from the class

    def __get__(self, plugin: Any, owner: Any) -> logging.Logger:
        logger = logging.getLogger(f"{PREFIX}{self._kind or owner.kind}.{owner.name}")
        logger.addFilter(_without_secrets)  # once: an earlier access may have added it
        return logger


def key_of(logger: str) -> PluginKey | None:
    """Return the plugin that the logger belongs to; None for other loggers."""
    kind, _, name = logger.removeprefix(PREFIX).partition(".")
    return (kind, name) if logger.startswith(PREFIX) and name else None
