"""Sentences of services: plain English for whoever knows nothing of languages, translated where pages draw them."""

from __future__ import annotations

import copy
import json

from django.utils import translation

from conductor.core.phrases import phrase, phrases
from conductor.services.triage.values import span
from portal.templatetags.words import say


def test_a_phrase_is_its_english_sentence() -> None:
    said = phrase("It waits for %(what)s.", what=span(120))
    assert said == "It waits for 2 minutes."
    assert json.loads(json.dumps({"why": said})) == {"why": "It waits for 2 minutes."}
    assert phrases("%(count)s server", "%(count)s servers", 1) == "1 server"
    assert phrase("100% of it") == "100% of it"


def test_pages_say_it_in_their_language_with_all_that_is_put_in() -> None:
    said = phrase(
        "In step “%(step)s” after %(time)s; %(usual)s.",
        step=phrase("not begun"),
        time=span(3_600),
        usual=phrase("19 of 20 take at most %(time)s", time=span(2)),
    )
    with translation.override("de"):
        assert say(said) == "Nach 1 Stunde im Schritt „nicht begonnen“; 19 von 20 sind nach 2 Sekunden fertig."
        assert say(copy.deepcopy(said)) == say(said)
        assert say("Free") == "Frei"
        assert say(phrase("")) == ""
    with translation.override("en"):
        assert say(said) == said
