"""Notes about single plugins: bounded, without secrets, and from the plugin's own logger."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from conductor.conformance.impurity import watched
from conductor.core.extensions import Panel
from conductor.core.filter import Filter
from conductor.core.plugin_log import key_of
from conductor.core.redaction import redacted
from conductor.core.weigher import Weigher
from conductor.plugins.log import AT_MOST, DIFFERENCE, FAULT, LINE, LONGEST_TEXT, PLUGINS_AT_MOST, Note, Notes

KEY = ("filter", "Tides")


class Tides(Filter):
    name = "Tides"


class Own(Weigher):
    name = "Own"

    def __init__(self) -> None:
        super().__init__()
        self.log = "what the plugin means by it"  # type: ignore[assignment]


class Card(Panel):
    name = "deep.Card"


@pytest.fixture
def notes() -> Iterator[Notes]:
    found = Notes()
    logger = logging.getLogger("novella.plugins")
    logger.addHandler(found)
    yield found
    logger.removeHandler(found)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("password=sesame and more", "password=••• and more"),
        ('{"api_key": "a b c", "user": "ana"}', '{"api_key": •••, "user": "ana"}'),
        ("Authorization: Bearer abc.def", "Authorization: •••"),
        ("asked with bearer abc.def today", "asked with bearer ••• today"),
        ("https://ana:sesame@racks.example/7?token=x&rack=7", "https://•••@racks.example/7?token=•••&rack=7"),
        ("sent 0123456789abcdef0123456789abcdef01234567 to it", "sent ••• to it"),
        (
            "server 5f0c1b1e-6a0e-4a57-9d1b-0a4a6f4d2f11 of rack 7",
            "server 5f0c1b1e-6a0e-4a57-9d1b-0a4a6f4d2f11 of rack 7",
        ),
        ("two\nlines\x1b[31m", "two lines [31m"),
        ("x" * 30, "x" * 19 + "…"),
    ],
)
def test_texts_that_look_like_secrets_are_not_stored(text: str, kept: str) -> None:
    assert redacted(text, 20 if text.startswith("xxx") else 100) == kept


def test_a_plugin_has_a_logger_of_its_own(notes: Notes, caplog: pytest.LogCaptureFixture) -> None:
    Tides().log.warning("the tide is %s, token=%s", "high", "sesame")
    Card.log.error("no %d", "number")
    logging.getLogger("novella.other").warning("not a plugin")
    assert str(Own().log) == "what the plugin means by it"
    taken = notes.take()
    assert [(one.source, one.level, one.text) for one in taken[KEY]] == [
        (LINE, "warning", "the tide is high, token=•••")
    ]
    assert [one.text for one in taken["panel", "deep.Card"]] == ["a line that cannot be formatted (TypeError)"]
    assert len(taken) == 2
    assert "token=•••" in caplog.text
    assert "sesame" not in caplog.text
    assert notes.take() == {}
    assert (key_of("novella.plugins.filter"), key_of("conductor.plugins")) == (None, None)


def test_a_line_for_the_log_is_not_impure_and_a_look_at_the_clock_is(notes: Notes) -> None:
    with watched() as seen:
        Tides().log.info("no clock of mine")
    assert seen == set()


def test_an_error_is_noted_by_its_kind_and_place(notes: Notes) -> None:
    def fail() -> None:
        raise RuntimeError("/secret/path")

    for _ in range(2):
        try:
            fail()
        except RuntimeError as error:
            notes.fault(KEY, type(error).__name__, error)
    (one,) = notes.take()[KEY]
    assert (one.source, one.text, one.times) == (FAULT, "RuntimeError", 2)
    assert one.place == f"{__name__}:{fail.__code__.co_firstlineno + 1} in fail"


def test_notes_about_a_plugin_are_bounded(notes: Notes) -> None:
    for number in range(AT_MOST + 5):
        notes.difference(KEY, f"{number} " + "x" * 1000, "run")
    for number in range(PLUGINS_AT_MOST + 5):
        notes.add(("filter", f"one-{number}"), Note(LINE, "text", 0.0))
    taken = notes.take()
    assert len(taken) == PLUGINS_AT_MOST
    assert [one.text.split()[0] for one in taken[KEY]] == [str(number) for number in range(5, AT_MOST + 5)]
    assert {(one.source, len(one.text)) for one in taken[KEY]} == {(DIFFERENCE, LONGEST_TEXT)}
