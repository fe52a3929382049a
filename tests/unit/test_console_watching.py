"""Input of view-only viewers: however it is split into pieces, none that affects the guest is forwarded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.core.errors import Forbidden
from conductor.core.view_only import MAX_MESSAGE_BYTES, ScreenFilter, SerialFilter

GREETING = b"RFB 003.008\n\1\1"


def encodings(count: int) -> bytes:
    return b"\2\0" + count.to_bytes(2, "big") + bytes(4 * count)


def pasted(length: int) -> bytes:
    return b"\6\0\0\0" + length.to_bytes(4, "big", signed=True) + b"\4" * abs(length)


PASSED = st.one_of(
    st.binary(min_size=19, max_size=19).map(lambda body: b"\0" + body),
    st.integers(0, 40).map(encodings),
    st.binary(min_size=9, max_size=9).map(lambda body: b"\3" + body),
    st.binary(min_size=9, max_size=9).map(lambda body: b"\x96" + body),
    st.binary(max_size=64).map(lambda body: b"\xf8" + bytes(7) + bytes([len(body)]) + body),
)
DROPPED = st.one_of(
    st.binary(min_size=7, max_size=7).map(lambda body: b"\4" + body),
    st.binary(min_size=5, max_size=5).map(lambda body: b"\5" + body),
    st.integers(-300, 300).map(pasted),
    st.binary(min_size=3, max_size=3).map(lambda body: b"\xfa" + body),
    st.integers(0, 3).map(lambda screens: b"\xfb" + bytes(5) + bytes([screens, 0]) + b"\4" * (16 * screens)),
    st.binary(min_size=11, max_size=11).map(lambda body: b"\xff" + body),
)


@given(st.lists(st.one_of(st.tuples(st.just(True), PASSED), st.tuples(st.just(False), DROPPED))), st.data())
def test_only_messages_that_drawing_needs_are_forwarded(
    messages: list[tuple[bool, bytes]], data: st.DataObject
) -> None:
    text = GREETING + b"".join(message for _, message in messages)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    watcher = ScreenFilter()
    passed = b"".join(
        watcher.filter(text[begin:end]) for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)
    )
    assert passed == GREETING + b"".join(message for goes_on, message in messages if goes_on)


@pytest.mark.parametrize(
    "text",
    [
        b"RFB 003.003\n",  # would sign in by other steps than are read here
        b"RFB 003.008\n\2",  # a password
        b"GET / HTTP/1",
        GREETING + b"\1",
        GREETING + b"\xc8",
        GREETING + b"\6\0\0\0" + (MAX_MESSAGE_BYTES).to_bytes(4, "big"),
    ],
)
def test_input_that_no_viewer_sends_ends_the_connection(text: bytes) -> None:
    with pytest.raises(Forbidden):
        ScreenFilter().filter(text)


def test_no_input_of_a_viewer_reaches_a_serial_console() -> None:
    assert SerialFilter().filter(b"\r") == b""
