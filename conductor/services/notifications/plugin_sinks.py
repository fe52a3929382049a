"""Sinks of plugins, each in a worker process. A sink that raises, hangs or returns nonsense has failed, and is
named.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from conductor.core.errors import NovellaError
from conductor.core.notification_sink import Notification, NotificationSink, Send, SinkFailed
from conductor.core.scheduling.watching import PluginTimedOut, describe
from conductor.plugins import registry
from conductor.plugins import sinks as worker_sinks
from conductor.plugins.log import notes
from conductor.plugins.sinks import sink_of
from conductor.plugins.worker_protocol import speaking
from conductor.plugins.workers import DedicatedWorker

log = logging.getLogger(__name__)
SECONDS = 10.0  # for each call of a sink


def enabled(wanted: Mapping[str, Mapping[str, Any]]) -> list[PluginSink]:
    """Return the sinks that the operator configured, with their options.

    An unusable one is logged and left out. Its position in the journals stays, and it continues there once it is fixed.
    """
    plugins, found = registry(), []
    for name, options in wanted.items():
        try:
            found.append(PluginSink(sink_of(plugins.sinks, name, options), DedicatedWorker(plugins.loads)))
        except NovellaError as error:
            log.error("sink is not used: name=%s reason=%s", name, error.message)
    return found


@dataclass
class PluginSink:
    """A plugin's sink in a worker process of its own. `seconds` is the time limit of each call."""

    inner: NotificationSink
    worker: DedicatedWorker
    seconds: float = SECONDS

    @property
    def name(self) -> str:
        return f"plugin {self.inner.name}"

    @contextmanager
    def open(self) -> Iterator[Send]:
        self._ask(worker_sinks.open_)
        try:
            yield self._send
        finally:
            if self.worker.is_running():
                with suppress(SinkFailed):  # messages that it has accepted stay accepted
                    self._ask(worker_sinks.close)

    def _send(self, message: Notification) -> str:
        answer: str = self._ask(worker_sinks.send, message)
        return answer

    def _ask(self, work: Callable[..., Any], *args: Any) -> Any:
        """Call the worker.

        Raises SinkFailed: a sink that hangs is killed, and gets a new worker when it is next opened.
        """
        raised: BaseException | None = None
        try:
            return self.worker.call(self.seconds, speaking, work, self.inner, *args)
        except PluginTimedOut:
            failure = f"did not answer within {self.seconds:g} seconds"
        except SinkFailed as error:
            failure, raised = str(error), error.__cause__
        except Exception as error:  # any exception of the plugin: its text may hold secrets
            log.exception("sink raised: sink=%s", self.name)
            failure, raised = describe(error), error
        notes.fault(("sink", self.inner.name), failure, raised)
        raise SinkFailed(failure)
