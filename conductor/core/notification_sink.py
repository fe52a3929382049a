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
    """One message to a sink. Messages with the same `resource`, which is the subject, keep their order."""

    message_id: UUID
    number: int
    event_type: str
    resource: str
    body: Mapping[str, Any]


class SinkFailed(Exception):
    """A sink did not take a message; operators may see its text."""


Send = Callable[[Notification], str]


class NotificationSink:
    """Receives messages: each at least once, and those of one journal in order.

    A subclass must define `name` and `open`. A message that is delivered again has the same `message_id`.

    Attributes:
        options_schema: A JSON schema with a default, for each option by name. An option with `writeOnly` is a secret.
        options: Values of the options.
        log: A logger of the sink's own. Operators find its last lines in the catalogue.
    """

    name: ClassVar[str] = ""
    options_schema: ClassVar[OptionsSchema] = {}
    log = PluginLog("sink")

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self.options = with_defaults(self.options_schema, options or {})

    def open(self) -> AbstractContextManager[Send]:
        """Return a connection for some messages: a function that sends one message and returns a short report.

        Both raise SinkFailed if the message was not delivered. It is sent again later; all later messages wait for it.
        """
        raise NotImplementedError
