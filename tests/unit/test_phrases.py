"""Sentences of services: plain English by default, translated when pages render them."""

from __future__ import annotations

import copy
import json

from django.utils import translation

from conductor.core.phrases import phrase, phrases
from conductor.services.operations.triage.values import span
from portal.templatetags.words import say


def test_a_phrase_is_its_english_sentence() -> None:
    message = phrase("Waiting for %(what)s.", what=span(120))
    assert message == "Waiting for 2 minutes."
    assert json.loads(json.dumps({"why": message})) == {"why": "Waiting for 2 minutes."}
    assert phrases("%(count)s server", "%(count)s servers", 1) == "1 server"
    assert phrase("100% of it") == "100% of it"


def test_pages_say_it_in_their_language_with_all_that_is_put_in() -> None:
    message = phrase(
        "In step “%(step)s” for %(time)s; %(typical)s.",
        step=phrase("not started"),
        time=span(3_600),
        typical=phrase("p95: %(time)s", time=span(2)),
    )
    with translation.override("de"):
        assert say(message) == "In Schritt „nicht begonnen“ seit 1 Stunde; p95: 2 Sekunden."
        assert say(copy.deepcopy(message)) == say(message)
        assert say("Free") == "Frei"
        assert say(phrase("")) == ""
        assert say(phrase("%(milliseconds)s ms", milliseconds=1234.5)) == "1.234,5 ms"
    with translation.override("en"):
        assert say(message) == message
