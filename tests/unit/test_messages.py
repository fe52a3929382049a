"""Messages: a string in English, stored as a code with values, shown on pages in the reader's language."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
from django.utils import translation

from conductor.core import messages
from conductor.core.errors import Conflict
from conductor.core.messages import Message, all_of, message, plugin_name, sentences, word
from conductor.core.texts import TEXTS
from conductor.core.texts.forms import Plural
from conductor.core.verdict import reject
from portal.templatetags.words import say
from tests.fixtures.message_places import places

FULL = message(
    "scheduling.rejected",
    rejected=16,
    total=1600,
    reason=message(
        "scheduling.reason_with_need",
        reason=message("reject.not_enough", what=all_of([word("memory"), word("disk")])),
        need=message("amount", amount=400_000, unit="MB"),
    ),
)
NO_HOST = sentences(message("scheduling.no_valid_host"), FULL)


def test_a_message_is_its_english_text() -> None:
    assert NO_HOST == "No valid host was found. 16 of 1600 hosts: not enough memory and disk (400000 MB needed)."
    assert str(Conflict(NO_HOST)) == Conflict(NO_HOST).message == NO_HOST
    assert json.loads(json.dumps({"message": NO_HOST})) == {"message": str(NO_HOST)}
    assert message("scheduling.eligible", count=1, total=3) == "1 of 3 hosts is eligible."
    assert all_of(["a"]) == "a"
    assert all_of(["a", "b", "c"]) == "a, b and c"
    assert sentences("", "") == ""


def test_pages_show_messages_in_their_language() -> None:
    with translation.override("en"):
        assert say(FULL) == "16 of 1,600 hosts: not enough memory and disk (400,000 MB needed)."
    with translation.override("de"):
        assert say(FULL) == "16 von 1.600 Hosts: zu wenig Arbeitsspeicher und Platte (400.000 MB nötig)."
        assert str(say(NO_HOST)).startswith("Kein passender Host wurde gefunden. 16 von 1.600 Hosts")


@pytest.mark.parametrize(
    ("made", "german"),
    [
        (message("scheduling.near_full", count=1), "1 Host passt, ist aber voll."),
        (
            message("fit.request", change=message("fit.less", amount=message("amount.memory", amount=130560), asked=4)),
            "Es passt 130.560 MB Arbeitsspeicher statt 4.",
        ),
        (
            message("workflow.ended", state=word("failed (undone)")),
            "Der Workflow ist beendet: fehlgeschlagen (rückgängig).",
        ),
        (
            message("log.step_failed", step=word("Spawn on host"), error="no disk (DriverError)"),
            "„Auf dem Host bauen“ ist fehlgeschlagen: no disk (DriverError)",
        ),
        (
            message("scheduling.near_filter", count=2, filter=plugin_name("ComputeFilter")),
            "2 Hosts werden nur von „Compute-Dienst“ abgelehnt.",
        ),
        (message("migration.pause", seconds=1.26), None),
        (
            message("quota_request.unknown", name="x", names=["cores", "ram"]),
            "Die Grenze x gibt es nicht. Verwenden Sie eine von cores, ram.",
        ),
    ],
)
def test_words_plugins_numbers_and_plurals_are_those_of_the_language(made: Message, german: str | None) -> None:
    with translation.override("de"):
        assert say(made) == german if german else "etwa 1,3 s" in str(say(made))


@pytest.mark.parametrize("text", ["salt and pepper", "quokka", "The disk of the host is full.", "", None, 7])
def test_the_words_of_others_stay(text: object) -> None:
    with translation.override("de"):
        assert say(text) == text
    assert reject("full of cats").reason == "full of cats"


def test_a_message_is_the_same_after_it_was_kept_or_sent() -> None:
    for made in (NO_HOST, FULL, message("migration.pause", seconds=1.5), plugin_name("RackFilter")):
        assert isinstance(made, Message)
        kept = messages.unpack(json.loads(json.dumps(messages.pack(made))))
        for other in (kept, pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
            assert isinstance(other, Message)
            assert (other, other.code, other.values) == (made, made.code, made.values)
    assert messages.unpack(messages.pack("plain")) == "plain"


def test_errors_keep_the_text_beside_code_and_values() -> None:
    kept = json.loads(json.dumps({"class": "NoValidHost", **messages.fields(NO_HOST)}))
    assert kept["message"] == NO_HOST
    assert messages.text_of(kept) == NO_HOST
    assert isinstance(messages.text_of(kept), Message)
    assert messages.text_of({"class": "X", "message": "plain"}) == "plain"
    assert messages.text_of(None) == ""


@pytest.mark.parametrize(
    "kept",
    [
        {"code": "of.another_release", "values": {"host": "one"}},
        {"code": "workflow.ended", "values": {}},
        {"code": "scheduling.near_full", "values": {"count": "many"}},
        {"code": "workflow.ended", "values": None},
    ],
)
def test_unknown_message_codes_of_another_release_are_shown_by_name(kept: dict[str, object]) -> None:
    assert str(kept["code"]) in messages.unpack(kept) or messages.unpack(kept)
    assert messages.text_of({"message": "as it was", **kept}) in ("as it was", messages.unpack(kept))


def test_names_can_be_left_out_of_a_message() -> None:
    made = message("scheduling.reason_with_need", reason=message("have.free", amount="host one"), need="one")
    changed = messages.with_texts(made, lambda text: text.replace("one", "the host"))
    assert isinstance(changed, Message)
    assert changed == "host the host free (the host needed)"
    assert messages.with_texts("one", str.upper) == "ONE"


@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize("code", TEXTS)
def test_every_code_is_rendered_with_its_values(code: str, language: str) -> None:
    for count in (1, 1234):
        values = {name: f"<{name}>" for name in places(code)} | ({"count": count} if "count" in places(code) else {})
        made = message(code, **values)
        with translation.override(language):
            rendered = str(say(made))
        missing = [value for value in values.values() if isinstance(value, str) and value not in rendered]
        assert not missing, rendered
        assert "%(" not in rendered
        assert rendered == str(made) or language == "de" or "1,234" in rendered
        if language == "de" and not isinstance(TEXTS[code], Plural):
            assert rendered != str(made) or code in SAME_IN_GERMAN


SAME_IN_GERMAN = frozenset({"amount", "log.error", "audit.unsealed", "wait.host"})
