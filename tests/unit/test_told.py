"""What is kept or refused in English is known by its shape and said in the language of the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.utils import translation

from portal.pages import amounts
from portal.pages.faces import FLOW_WORDS
from portal.pages.told_shapes import SENTENCES, SHAPE_PARTS
from portal.templatetags import novella, words
from tools import catalogues

SERVICES = Path(__file__).parents[2] / "conductor" / "services"


@pytest.mark.parametrize(
    ("english", "german"),
    [
        (
            "No valid host was found. 16 of 16 hosts: not enough memory (400000 MB needed).",
            "Kein passender Host wurde gefunden. 16 von 16 Hosts: zu wenig Arbeitsspeicher (400.000 MB nötig).",
        ),
        ("Nearest: 1 host lacks nothing but room.", "Am nächsten dran: 1 Host fehlt nichts als Platz."),
        (
            "It fits with 130560 MB of memory in place of 400000.",
            "Es passt mit 130.560 MB Arbeitsspeicher statt 400.000.",
        ),
        ("130048 MB free", "130.048 MB frei"),
        ("It has ended: failed (undone).", "Er ist beendet: fehlgeschlagen (rückgängig)."),
        (
            "“Spawn on host” failed: no disk (DriverError)",
            "„Auf dem Host starten“ ist fehlgeschlagen: no disk (DriverError)",
        ),
        ("parked: waits for host sim-1", "abgestellt: wartet auf Host sim-1"),
        (
            "Quota exceeded for cores, ram: Requested 4, 8192, but already used 2, 512 of 4, 4096 cores, ram",
            "Kontingent überschritten für cores, ram: verlangt 4, 8192, schon genutzt 2, 512 von 4, 4096 cores, ram",
        ),
        ("There is no limit called x; there are cores, ram.", "Es gibt keine Grenze namens x; es gibt cores, ram."),
    ],
)
def test_sentences_are_known_by_their_shape(english: str, german: str) -> None:
    with translation.override("de"):
        assert words.told(english) == german


@pytest.mark.parametrize(
    "text", ["salt and pepper", "with love", "quokka", "The disk of the host is full.", "", None, 7]
)
def test_the_words_of_others_stay(text: object) -> None:
    with translation.override("de"):
        assert words.told(text) == text


def test_english_pages_get_the_text_with_numbers_that_can_be_read() -> None:
    with translation.override("en"):
        assert words.told("6 of 6 hosts: not enough memory (400000 MB needed).") == (
            "6 of 6 hosts: not enough memory (400,000 MB needed)."
        )
        assert words.told("req-12345678 at port 59527") == "req-12345678 at port 59527"
        assert words.told("Nearest: 1 host lacks nothing but what ComputeFilter asks for.") == (
            "Nearest: 1 host lacks nothing but what “Compute service” asks for."
        )


def test_no_shape_is_there_twice_and_each_has_its_translation() -> None:
    shapes = (*SENTENCES, *SHAPE_PARTS)
    assert len(shapes) == len(set(shapes))
    kept = {catalogues.text_of(one): one for one in catalogues.read("de", "django") if one.id}
    assert [shape for shape in shapes if not any(catalogues.strings_of(kept[shape]))] == []


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("en", ["4,096", "392.8 GB", "1,100 MB", "2.0 TB", "1.5 GB", "12,345.50", "500", "2.5 GB"]),
        ("de", ["4.096", "392,8 GB", "1.100 MB", "2,0 TB", "1,5 GB", "12.345,50", "500", "2,5 GB"]),
    ],
)
def test_amounts_are_written_as_the_language_does(language: str, said: list[str]) -> None:
    with translation.override(language):
        assert said == [
            amounts.whole(4096),
            amounts.megabytes(402_227),
            amounts.megabytes(1100),
            amounts.large_megabytes(2_097_152),
            amounts.megabytes(1536),
            amounts.decimal(12345.5, 2),
            amounts.short(500.0),
            amounts.size(2_684_354_560),
        ]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.9994, "999 ms"), (0.9996, "1,0 s"), (1.26, "1,3 s"), (9.94, "9,9 s"), (9.96, "10 s"), (59.6, "1 min")],
)
def test_what_took_time_is_rounded_and_never_cut_off(seconds: float, said: str) -> None:
    with translation.override("de"):
        assert novella.duration(seconds) == said
    with translation.override("en"):
        assert novella.duration(seconds) == said.replace(",", ".")


def test_only_amounts_writes_numbers_and_its_rounding_holds_everywhere() -> None:
    """Django's own cuts decimals off, and puts no mark between thousands unless it is asked to."""
    portal = Path(novella.__file__).parents[1]
    users = [path.name for path in portal.rglob("*.py") if "number_format" in path.read_text()]
    assert users == ["amounts.py"]


def test_every_name_of_the_api_that_heads_a_workflow_is_said_in_words() -> None:
    """ "removeSecurityGroup" is no word; names of one word, or of several with dashes, can be read as they are."""
    recorded = {
        match for path in SERVICES.glob("*.py") for match in re.findall(r'Deed\(\s*action="(\w+)"', path.read_text())
    }
    assert "removeSecurityGroup" in recorded
    names = {name for name in recorded if name != name.lower()}
    assert sorted(names - set(FLOW_WORDS)) == []
