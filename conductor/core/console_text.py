"""Console bytes as text of equal length, so that byte offsets stay valid whatever a guest writes."""

from __future__ import annotations

import codecs

# One ASCII character for each byte that is not UTF-8: a longer mark would shift everything after it.
MARK = "?"
TAIL_BYTES = 64 * 1024
_ERRORS = "novella_mark"


def _mark(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return MARK * (error.end - error.start), error.end


codecs.register_error(_ERRORS, _mark)


def to_text(raw: bytes) -> str:
    """Decode `raw` as text that encodes to as many bytes.

    Invalid bytes become a mark. So does NUL, which databases refuse.
    """
    return raw.decode("utf-8", _ERRORS).replace("\0", MARK)


def whole_length(raw: bytes) -> int:
    """Return how many bytes of `raw` can be decoded now: all except a character that is cut off at the end."""
    decoder = codecs.getincrementaldecoder("utf-8")(_ERRORS)
    decoder.decode(raw)
    return len(raw) - len(decoder.getstate()[0])


def tail(raw: bytes, most: int = TAIL_BYTES) -> bytes:
    """Return at most the last `most` bytes, starting at the beginning of a character."""
    if len(raw) <= most:
        return raw
    cut = raw[len(raw) - most :]
    start = next((at for at, byte in enumerate(cut[:3]) if byte & 0xC0 != 0x80), min(3, len(cut)))
    return cut[start:]
