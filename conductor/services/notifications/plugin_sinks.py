"""Sinks that plugins bring, held to their contract: what raises, hangs or says nonsense has failed, and is named."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from conductor.core.errors import NovellaError
from conductor.core.notification_sink import Notification, NotificationSink, Send, SinkFailed
from conductor.plugins import registry
from conductor.plugins.notes import notes
from conductor.plugins.sinks import sink_of

log = logging.getLogger(__name__)
T = TypeVar("T")
SECONDS = 10.0  # for each thing that a sink is asked to do


def enabled(wanted: Mapping[str, Mapping[str, Any]]) -> list[PluginSink]:
    """The sinks that the operator named, with their options. One that cannot be had is told in the log and left out:
    its place in the journals stays, and it goes on there once it is mended."""
    known, found = registry().sinks, []
    for name, options in wanted.items():
        try:
            found.append(PluginSink(sink_of(known, name, options)))
        except NovellaError as error:
            log.error("sink is not used: name=%s reason=%s", name, error.message)
    return found


@dataclass
class PluginSink:
    """A sink of somebody else's. `seconds` is how long it may take for each thing."""

    inner: NotificationSink
    seconds: float = SECONDS
    _stuck: threading.Thread | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return f"plugin {self.inner.name}"

    @contextmanager
    def open(self) -> Iterator[Send]:
        manager = self._asked(self._opened)
        send = self._asked(manager.__enter__)

        def sent(message: Notification) -> str:
            answer = self._asked(lambda: send(message))
            if not isinstance(answer, str):
                raise self._failure(f"said {type(answer).__name__} where a text belongs")
            return answer

        try:
            yield sent
        finally:
            with suppress(SinkFailed):  # what it took, it took
                self._asked(lambda: manager.__exit__(None, None, None))

    def _opened(self) -> AbstractContextManager[Send]:
        manager = self.inner.open()
        if not isinstance(manager, AbstractContextManager):
            raise self._failure(f"opened {type(manager).__name__}, which is no context manager")
        return manager

    def _asked(self, work: Callable[[], T]) -> T:
        """On a thread of its own, as a sink may hang. One that does is not asked again until it has come back."""
        if self._stuck is not None and self._stuck.is_alive():
            raise self._failure("still hangs")
        outcome: list[T] = []
        failure: list[tuple[str, BaseException]] = []

        def run() -> None:
            try:
                outcome.append(work())
            except SinkFailed as error:
                failure.append((str(error), error))
            except BaseException as error:  # foreign code may raise anything; its text may hold secrets
                log.exception("sink raised: sink=%s", self.name)
                failure.append((type(error).__name__, error))

        worker = threading.Thread(target=run, name=self.name, daemon=True)
        worker.start()
        worker.join(self.seconds)
        if worker.is_alive():
            self._stuck = worker
            raise self._failure(f"did not answer within {self.seconds:g} seconds")
        if failure:
            raise self._failure(*failure[0])
        return outcome[0]

    def _failure(self, text: str, raised: BaseException | None = None) -> SinkFailed:
        notes.fault(("sink", self.inner.name), text, raised)
        return SinkFailed(text)
