"""Console bytes as text: the length stays, whatever a guest writes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from conductor.core.console_text import tail, to_text, whole_length

RAW = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=80).map(str.encode),
    st.lists(st.sampled_from([b"\xe2\x82\xac", b"\xe2\x82", b"\xf0\x9f\x98\x80", b"\x80", b"a", b"\0"])).map(b"".join),
)


@given(RAW)
def test_text_has_as_many_characters_as_bytes_and_no_nul(raw: bytes) -> None:
    text = to_text(raw)
    assert len(text.encode()) == len(raw)
    assert "\0" not in text


@given(st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_good_text_stays_as_it_is(text: str) -> None:
    assert to_text(text.encode()) == text
    assert whole_length(text.encode()) == len(text.encode())


@given(RAW, st.integers(0, 200))
def test_a_cut_between_whole_characters_changes_nothing(raw: bytes, at: int) -> None:
    at = whole_length(raw[:at])
    assert to_text(raw[:at]) + to_text(raw[at:]) == to_text(raw)


@given(RAW, st.integers(0, 60))
def test_a_tail_is_an_end_of_the_text(raw: bytes, most: int) -> None:
    kept = tail(raw, most)
    assert len(kept) <= most
    assert len(kept) >= min(len(raw), most) - 3
    assert raw.endswith(kept)
    assert to_text(raw).endswith(to_text(kept))


def test_invalid_bytes_are_replaced_one_by_one() -> None:
    assert to_text(b"ok \xff\xfe \xe2\x82 \x00 \xe2\x82\xac") == "ok ?? ?? ? €"
    assert whole_length(b"price: \xe2\x82") == 7
    assert whole_length(b"price: \xff") == 8
