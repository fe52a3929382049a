"""Pages of the reference that are written by hand, except for what the code generates in some of their sections."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path


def with_sections(page: Path, sections: Mapping[str, Callable[[str], str]]) -> str:
    """Return the page; `sections` has functions, by heading, that return the new text of a section for the old one."""
    parts = re.split(r"^## (.+)\n", page.read_text(), flags=re.MULTILINE)
    missing = [title for title in sections if title not in parts[1::2]]
    if missing:
        raise ValueError(f"{page} has no section {missing[0]!r}: write its heading, then try again")
    texts = (
        f"## {title}\n{sections[title](text) if title in sections else text}"
        for title, text in zip(parts[1::2], parts[2::2], strict=True)
    )
    return parts[0] + "".join(texts)


def paragraphs(documented: object) -> list[str]:
    """Return the paragraphs of a docstring for cells of tables, a line each. Raises ValueError if there are none."""
    text = inspect.cleandoc(documented.__doc__ or "")
    if not text:
        raise ValueError(f"{documented} has no docstring: the reference needs its first paragraph")
    return [" ".join(one.split()).replace("|", "\\|") for one in text.split("\n\n")]
