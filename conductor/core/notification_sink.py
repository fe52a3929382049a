"""Base class of notification sinks: destinations of the cloud's messages about servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar
from uuid import UUID

from conductor.core.plugin_log import PluginLog
from conductor.core.plugin_options import OptionsSchema, with_defaults


@dataclass(frozen=True)
class Notification:
    """One message to a sink. `resource` is its subject: messages about one resource keep their order."""

    message_id: UUID
    number: int
    event_type: str
    resource: str
    body: Mapping[str, Any]


class SinkFailed(Exception):
    """A sink did not take a message; operators may see its text."""


Send = Callable[[Notification], str]


class NotificationSink:
    """Takes messages: at least once each, and those of one journal in their order.

    A subclass must give `name` and `open`. A message that comes again has the same `message_id`. `options_schema` has
    a JSON schema with a default for each option by name; `options` are their values. One whose schema says
    `writeOnly` is a secret. `log` is a logger of its own: operators find its last lines in the catalogue.
    """

    name: ClassVar[str] = ""
    options_schema: ClassVar[OptionsSchema] = {}
    log = PluginLog("sink")

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self.options = with_defaults(self.options_schema, options or {})

    def open(self) -> AbstractContextManager[Send]:
        """Return a connection for some messages: a function that sends one and returns a short report of the result.

        Both raise SinkFailed where the message was not taken: it is sent again later, and all others wait for it.
        """
        raise NotImplementedError
