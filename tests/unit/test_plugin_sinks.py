"""Sinks of somebody else's: what raises, hangs or lies has failed, under its name; the settings say which are used."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from pytest_django import Settings

from conductor.conformance.sink import message, told
from conductor.core.errors import Invalid
from conductor.core.notification_sink import Notification, NotificationSink, Send, SinkFailed
from conductor.plugins import Registry, check_plugins
from conductor.plugins.sinks import sink_of
from conductor.services.notifications import plugin_sinks, sinks
from conductor.services.notifications.plugin_sinks import PluginSink

SECRET = "seven-ducks-swim"


class Shelf(NotificationSink):
    """Keeps what it gets."""

    name = "shelf"
    options_schema = {
        "most": {"type": "integer", "minimum": 1, "default": 9},
        "key": {"type": "string", "default": "", "writeOnly": True},
    }

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        self.kept: list[str] = []
        self.closed = 0

    @contextmanager
    def open(self) -> Iterator[Send]:
        yield self.take
        self.closed += 1

    def take(self, message: Notification) -> Any:
        self.kept.append(message.event_type)
        return "kept"


class Raises(Shelf):
    def take(self, message: Notification) -> Any:
        raise ValueError(f"cannot reach https://:{SECRET}@example.test/")


class Exits(Shelf):
    def take(self, message: Notification) -> Any:
        raise SystemExit(3)


class Lies(Shelf):
    def take(self, message: Notification) -> Any:
        return 200


class NoManager(Shelf):
    def open(self) -> Any:
        return self.take


class Hangs(Shelf):
    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        self.go_on = threading.Event()

    def take(self, message: Notification) -> Any:
        self.go_on.wait(30)
        return super().take(message)


def test_what_a_sink_takes_it_takes_over_one_connection() -> None:
    shelf = Shelf()
    assert told(PluginSink(shelf), [message(1), message(2)]) == ["kept", "kept"]  # type: ignore[arg-type]
    assert (shelf.kept, shelf.closed) == (["instance.create.end"] * 2, 1)
    assert PluginSink(shelf).name == "plugin shelf"


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Raises, "ValueError"),
        (Exits, "SystemExit"),
        (Lies, "said int where a text belongs"),
        (NoManager, "opened method, which is no context manager"),
    ],
)
def test_one_that_breaks_its_contract_has_failed_and_its_text_is_not_shown(kind: type[Shelf], said: str) -> None:
    with pytest.raises(SinkFailed) as failure:
        told(PluginSink(kind()), [message(1)])  # type: ignore[arg-type]
    assert str(failure.value) == said
    assert SECRET not in str(failure.value)


def test_one_that_hangs_is_given_up_and_not_asked_again_before_it_came_back() -> None:
    inner = Hangs()
    sink = PluginSink(inner, seconds=0.2)
    for said in ("did not answer within 0.2 seconds", "still hangs"):
        with pytest.raises(SinkFailed, match=said):
            told(sink, [message(1)])  # type: ignore[arg-type]
    inner.go_on.set()
    assert sink._box._stuck is not None
    sink._box._stuck.join(5)
    assert told(sink, [message(2)]) == ["kept"]  # type: ignore[arg-type]


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Registry:
    found = Registry(sinks={"shelf": Shelf})
    monkeypatch.setattr(plugin_sinks, "registry", lambda: found)
    monkeypatch.setattr("conductor.plugins.system_checks.registry", lambda: found)
    return found


def test_the_settings_name_those_that_are_told(known: Registry, settings: Settings) -> None:
    settings.NOVELLA_NOTIFICATION_SINKS = {"shelf": {"most": 3}}
    (found,) = sinks.configured()
    assert isinstance(found, PluginSink)
    assert found.inner.options == {"most": 3, "key": ""}
    assert check_plugins() == []


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"shelv": {}}, "No plugin brings a sink shelv. Did you mean shelf? Known: shelf."),
        ({"shelf": [3]}, "The options of shelf are a mapping, not list."),
        ({"shelf": {"more": 3}}, "shelf has no option more."),
        ({"shelf": {"most": 0}}, "The option most of shelf does not fit. Value: 0."),
        ({"shelf": {"key": 7}}, "The option key of shelf does not fit. It must have the form"),
    ],
)
def test_a_name_or_option_that_does_not_do_is_told_and_the_sink_left_out(
    known: Registry, settings: Settings, wanted: dict[str, Any], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings.NOVELLA_NOTIFICATION_SINKS = wanted
    with pytest.raises(Invalid) as refusal:
        sink_of(known.sinks, *next(iter(wanted.items())))
    assert refusal.value.message.startswith(said)
    assert [(one.id, one.msg.startswith(f"NOVELLA_NOTIFICATION_SINKS: {said}")) for one in check_plugins()] == [
        ("conductor.W004", True)
    ]
    assert sinks.configured() == []
    assert said in caplog.text
