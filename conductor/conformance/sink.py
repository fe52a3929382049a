"""Conformance tests of notification sinks: subclass SinkConformance, give it a sink and its received messages.

    class TestMine(SinkConformance):
        @pytest.fixture
        def sink(self) -> NotificationSink: ...               # with options by which it works here

        def received(self, sink) -> list[str]: ...            # message ids in the order in which they came in

Give `broken` too where you can: the same sink without a server at the other end.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from uuid import UUID, uuid5

import pytest

from conductor.core.notification_sink import Notification, NotificationSink, SinkFailed

SPACE = UUID("4f3c5b52-4b7a-4a0e-8f67-0a9d1b9a6f10")
SECONDS = 10.0


def message(number: int, event_type: str = "instance.create.end") -> Notification:
    """Return a notification as the cloud sends it; the same number has the same id."""
    message_id = uuid5(SPACE, str(number))
    body = {
        "event_type": event_type,
        "priority": "ERROR" if event_type.endswith(".error") else "INFO",
        "publisher_id": "novella:cell1",
        "timestamp": "2026-01-31T12:00:00.123000+00:00",
        "message_id": str(message_id),
        "payload": {"schema": "workflow.action", "version": "1.0", "data": {"instance": {"display_name": "naïve-☃"}}},
    }
    return Notification(message_id, number, event_type, "instance:web-1", body)


def deliver(sink: NotificationSink, messages: Sequence[Notification]) -> list[str]:
    """Send messages over one connection. Return the sink's reports."""
    with sink.open() as send:
        return [send(one) for one in messages]


class SinkConformance:
    """Tests that a sink takes all messages, in order, over any number of connections."""

    @pytest.fixture
    def sink(self) -> NotificationSink:
        raise NotImplementedError

    @pytest.fixture
    def broken(self) -> NotificationSink | None:
        return None

    def received(self, sink: NotificationSink) -> list[str]:
        raise NotImplementedError

    def test_it_has_a_name_and_options_that_are_declared(self, sink: NotificationSink) -> None:
        assert sink.name, "give `name`"
        for name, rule in sink.options_schema.items():
            assert "default" in rule, f"the option {name} has no default"

    def test_messages_arrive_in_their_order(self, sink: NotificationSink) -> None:
        messages = [message(number) for number in range(5)]
        before = len(self.received(sink))
        answers = deliver(sink, messages[:3]) + deliver(sink, messages[3:])
        assert all(isinstance(answer, str) for answer in answers), "say in a few words how it was taken"
        assert self.received(sink)[before:] == [str(one.message_id) for one in messages]

    def test_a_message_that_comes_again_is_taken_again(self, sink: NotificationSink) -> None:
        """A receiver drops a duplicate by its id; the sink must not fail for it."""
        for _ in range(2):
            deliver(sink, [message(7)])
        assert str(message(7).message_id) in self.received(sink)

    def test_opening_without_sending_is_nothing(self, sink: NotificationSink) -> None:
        before = self.received(sink)
        assert deliver(sink, []) == []
        assert self.received(sink) == before

    def test_an_unreachable_receiver_is_a_failure_within_seconds(self, broken: NotificationSink | None) -> None:
        if broken is None:
            return
        outcome: list[str] = []

        def run() -> None:
            try:
                deliver(broken, [message(1)])
                outcome.append("it reported that the message was taken")
            except SinkFailed:
                outcome.append("")
            except Exception as error:
                outcome.append(f"it raised {type(error).__name__}, not SinkFailed")

        worker = threading.Thread(target=run, daemon=True)
        worker.start()
        worker.join(SECONDS)
        assert outcome, f"it did not answer within {SECONDS:g} seconds"
        assert outcome == [""], outcome[0]
