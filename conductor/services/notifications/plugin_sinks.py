"""Sinks that plugins bring, held to their contract: what raises, hangs or says nonsense has failed, and is named."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from conductor.core.errors import NovellaError
from conductor.core.notification_sink import Notification, NotificationSink, Send, SinkFailed
from conductor.plugins import registry
from conductor.plugins.notes import notes
from conductor.plugins.sinks import sink_of
from conductor.plugins.time_box import TimeBox, TooLate

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


class _Raised(SinkFailed):
    """Its cause is what the sink raised."""


@dataclass
class PluginSink:
    """A sink of somebody else's. `seconds` is how long it may take for each thing."""

    inner: NotificationSink
    seconds: float = SECONDS
    _box: TimeBox = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._box = TimeBox(self.name)

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
            raise SinkFailed(f"opened {type(manager).__name__}, which is no context manager")
        return manager

    def _asked(self, work: Callable[[], T]) -> T:
        """On a thread of its own, as a sink may hang. One that does is not asked again until it has come back."""

        def told() -> T:
            try:
                return work()
            except SinkFailed:
                raise
            except BaseException as error:  # foreign code may raise anything; its text may hold secrets
                log.exception("sink raised: sink=%s", self.name)
                raise _Raised(type(error).__name__) from error

        try:
            answer: T = self._box.ask(told, self.seconds)
        except TooLate as late:
            raise self._failure(str(late)) from None
        except SinkFailed as error:
            raise self._failure(str(error), error.__cause__ if isinstance(error, _Raised) else error) from None
        return answer

    def _failure(self, text: str, raised: BaseException | None = None) -> SinkFailed:
        notes.fault(("sink", self.inner.name), text, raised)
        return SinkFailed(text)
