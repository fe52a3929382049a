"""Output of a serial console, made readable."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.pages.servers.serial import readable


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain\nlines\n", "plain\nlines"),
        ("dos\r\nlines\r\n", "dos\nlines"),
        ("\x1b[32m[  OK  ]\x1b[0m Reached", "[  OK  ] Reached"),
        ("\x1b]0;title\x07prompt# ", "prompt# "),
        ("\x1b(Bboot\x1b[2J\x1b[1;1H", "boot"),
        ("10%\r50%\r100%", "100%"),
        ("100%\r50", "500%"),
        ("passs\b \bword", "password"),
        ("\x00\x07nul and bell", "nul and bell"),
        ("cut short \x1b[3", "cut short "),
        ("\ttab stays", "\ttab stays"),
    ],
)
def test_escapes_and_rewritten_lines_are_resolved(raw: str, shown: str) -> None:
    assert readable(raw) == shown


@given(st.text())
def test_nothing_that_moves_a_cursor_is_left(raw: str) -> None:
    assert not set(readable(raw)) & {"\x1b", "\r", "\b", "\x00", "\x07"}


@given(st.text(alphabet=st.characters(categories=("L", "N", "P", "S", "Zs")), max_size=200))
def test_plain_text_stays_as_it_is(raw: str) -> None:
    assert readable(raw) == raw
