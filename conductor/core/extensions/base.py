"""Base class of extensions: a kind, a name, and options that the operator sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from conductor.core.plugin_log import PluginLog
from conductor.core.plugin_options import OptionsSchema, with_defaults


class Extension:
    """A subclass of one of the kinds gives `name` and the method that its kind names as `method`.

    It runs in a worker process, for `seconds` at most: one that hangs is killed. It shares no memory with its caller
    or with other calls; a kind that `keeps_process` has one process for all its calls. `options_schema` has a JSON
    schema with a default for each option by name; `options` are the values. `log` is a logger of its own: operators
    find its last lines in the catalogue.
    """

    kind: ClassVar[str] = ""
    method: ClassVar[str] = ""
    seconds: ClassVar[float] = 1.0
    keeps_process: ClassVar[bool] = False
    name: ClassVar[str] = ""
    options_schema: ClassVar[OptionsSchema] = {}
    log = PluginLog()

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self.options = with_defaults(self.options_schema, options or {})
