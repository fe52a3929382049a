"""Third-party sinks: an error, a hang or a wrong result is a failure of that sink; settings select the sinks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pytest_django import Settings

from conductor.conformance.sink import deliver, message
from conductor.core.errors import Invalid
from conductor.core.notification_sink import SinkFailed
from conductor.plugins import PluginOptions, Registry, check_plugins, load
from conductor.plugins.sinks import sink_of
from conductor.plugins.workers import DedicatedWorker
from conductor.services.notifications import plugin_sinks, sinks
from conductor.services.notifications.plugin_sinks import PluginSink
from tests.trouble_plugin import SECRET

FAR_SECONDS, SHORT_SECONDS = 60.0, 0.5


@pytest.fixture(scope="module")
def found() -> Registry:
    return load(("tests.trouble_plugin",), PluginOptions(), finds_installed=False)


@pytest.fixture
def shelf(found: Registry) -> Iterator[Any]:
    """`shelf(mode="sleeps")`: the sink with these options, in a worker."""
    made = []

    def make(**options: Any) -> PluginSink:
        made.append(PluginSink(sink_of(found.sinks, "shelf", options), DedicatedWorker(found.loads), FAR_SECONDS))
        return made[-1]

    yield make
    for one in made:
        one.worker.end()


def test_a_sink_takes_messages_over_one_connection_and_keeps_its_memory(shelf: Any) -> None:
    sink = shelf()
    assert deliver(sink, [message(1), message(2)]) == ["1 kept, 0 closed", "2 kept, 0 closed"]
    assert deliver(sink, [message(3)]) == ["3 kept, 1 closed"]
    assert sink.name == "plugin shelf"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"mode": "raises"}, "ValueError"),
        ({"mode": "leaves"}, "SystemExit"),
        ({"mode": "exits"}, "it ended its process"),
        ({"mode": "crashes"}, "it ended its process"),
        ({"mode": "lies"}, "returned int instead of a text"),
        ({"opens": "nothing"}, "opened method, which is no context manager"),
        ({"opens": "refuses"}, "the shelf is full"),
    ],
)
def test_a_sink_that_breaks_its_contract_has_failed_and_its_text_is_not_shown(
    shelf: Any, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(SinkFailed) as failure:
        deliver(shelf(**options), [message(1)])
    assert str(failure.value) == reason
    assert SECRET not in str(failure.value)


@pytest.mark.parametrize("mode", ["sleeps", "loops", "matches", "counts"])
def test_a_sink_that_hangs_is_killed_and_the_next_message_has_a_new_process(shelf: Any, mode: str) -> None:
    sink = shelf(mode=mode, only=2)
    assert deliver(sink, [message(1)]) == ["1 kept, 0 closed"]
    sink.seconds = SHORT_SECONDS
    with pytest.raises(SinkFailed, match=r"did not answer within 0\.5 seconds"):
        deliver(sink, [message(2)])
    sink.seconds = FAR_SECONDS
    assert deliver(sink, [message(3)]) == ["1 kept, 0 closed"]


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch, found: Registry) -> Registry:
    monkeypatch.setattr(plugin_sinks, "registry", lambda: found)
    monkeypatch.setattr("conductor.plugins.system_checks.registry", lambda: found)
    return found


def test_the_settings_name_the_sinks_in_use(known: Registry, settings: Settings) -> None:
    settings.NOVELLA_NOTIFICATION_SINKS = {"shelf": {"most": 3}}
    (named,) = sinks.configured()
    assert isinstance(named, PluginSink)
    assert (named.inner.options["most"], named.inner.options["key"]) == (3, "")
    assert check_plugins() == []


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({"shelv": {}}, "No plugin brings a sink shelv. Did you mean shelf? Known: shelf."),
        ({"shelf": [3]}, "The options of shelf are a mapping, not list."),
        ({"shelf": {"more": 3}}, "shelf has no option more."),
        ({"shelf": {"most": 0}}, "The option most of shelf does not fit. Value: 0."),
        ({"shelf": {"key": 7}}, "The option key of shelf does not fit. It must have the form"),
    ],
)
def test_an_invalid_name_or_option_is_reported_and_the_sink_left_out(
    known: Registry, settings: Settings, wanted: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings.NOVELLA_NOTIFICATION_SINKS = wanted
    with pytest.raises(Invalid) as refusal:
        sink_of(known.sinks, *next(iter(wanted.items())))
    assert refusal.value.message.startswith(reason)
    assert [(one.id, one.msg.startswith(f"NOVELLA_NOTIFICATION_SINKS: {reason}")) for one in check_plugins()] == [
        ("conductor.W004", True)
    ]
    assert sinks.configured() == []
    assert reason in caplog.text
