"""Amounts and durations on pages: rounded, and written as the language does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.utils import translation

from portal.pages import amounts
from portal.pages.status_badges import FLOW_WORDS
from portal.templatetags import novella

SERVICES = Path(__file__).parents[2] / "conductor" / "services"


@pytest.mark.parametrize(
    ("language", "shown"),
    [
        ("en", ["4,096", "392.8 GB", "1,100 MB", "2.0 TB", "1.5 GB", "12,345.50", "500", "2.5 GB"]),
        ("de", ["4.096", "392,8 GB", "1.100 MB", "2,0 TB", "1,5 GB", "12.345,50", "500", "2,5 GB"]),
    ],
)
def test_amounts_are_written_as_the_language_does(language: str, shown: list[str]) -> None:
    with translation.override(language):
        assert shown == [
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
    ("seconds", "shown"),
    [(0.9994, "999 ms"), (0.9996, "1,0 s"), (1.26, "1,3 s"), (9.94, "9,9 s"), (9.96, "10 s"), (59.6, "1 min")],
)
def test_durations_are_rounded_and_not_truncated(seconds: float, shown: str) -> None:
    with translation.override("de"):
        assert novella.duration(seconds) == shown
    with translation.override("en"):
        assert novella.duration(seconds) == shown.replace(",", ".")


def test_only_amounts_writes_numbers_and_its_rounding_holds_everywhere() -> None:
    """Django's own cuts decimals off, and puts no mark between thousands unless it is asked to."""
    portal = Path(novella.__file__).parents[1]
    users = [path.name for path in portal.rglob("*.py") if "number_format" in path.read_text()]
    assert users == ["amounts.py"]


def test_every_action_name_of_the_api_has_a_title() -> None:
    """ "removeSecurityGroup" is no word; names of one word, or of several with dashes, can be read as they are."""
    recorded = {
        match
        for path in SERVICES.rglob("*.py")
        for match in re.findall(r'InstantAction\(\s*action="(\w+)"', path.read_text())
    }
    assert "removeSecurityGroup" in recorded
    names = {name for name in recorded if name != name.lower()}
    assert sorted(names - set(FLOW_WORDS)) == []
