"""Characters of names: of all resources, and of users."""

from __future__ import annotations

import unicodedata

# Control characters, line and paragraph separators, and surrogates: they break lines, tables, logs and terminals.
_CONTROL = frozenset({"Cc", "Zl", "Zp", "Cs"})
_FORMAT = "Cf"  # invisible characters, such as zero-width letters and changes of direction


def has_control(name: str) -> bool:
    """Whether a name has a control character or a line break."""
    return any(unicodedata.category(one) in _CONTROL for one in name)


def folded(name: str) -> str:
    """Return a key that is equal for names which differ only by case, by forms of letters, or by invisible
    characters.
    """
    return unicodedata.normalize("NFKC", plain(name).casefold())


def plain(name: str) -> str:
    """Normalise a user's name by NFKC, and drop control and format characters.

    Full-width letters become ordinary ones, so no two users have names that differ only by them.
    """
    seen = "".join(one for one in name if unicodedata.category(one) not in _CONTROL | {_FORMAT})
    return unicodedata.normalize("NFKC", seen)
