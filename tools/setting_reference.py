"""The tables of docs/reference/configuration.md: the settings with their defaults and meanings. Other text is kept."""

from __future__ import annotations

import re
from pathlib import Path

from portal import setting_facts
from portal.setting_texts import ELSEWHERE, SECTIONS

PROJECT_DIR = Path(__file__).resolve().parent.parent
PAGE = PROJECT_DIR / setting_facts.PAGE
TABLE = re.compile(r"^\| (?:variable|setting) \| default \| meaning \|\n(?:\|.*\n)+", re.MULTILINE)


def page() -> str:
    """Return the page with its tables as the code has them. A section without a table gets one after its heading."""
    parts = re.split(r"^## (.+)\n", PAGE.read_text(), flags=re.MULTILINE)
    missing = [title for title in SECTIONS if title not in parts[1::2]]
    if missing:
        raise ValueError(f"{setting_facts.PAGE} has no section {missing[0]!r}: write its heading, then try again")
    sections = (f"## {title}\n{_with_table(title, text)}" for title, text in zip(parts[1::2], parts[2::2], strict=True))
    return parts[0] + "".join(sections)


def _with_table(title: str, text: str) -> str:
    if not SECTIONS.get(title):
        return text
    table = _table(title)
    return TABLE.sub(lambda _: table, text) if TABLE.search(text) else f"\n{table}{text}"


def _table(title: str) -> str:
    head = f"| {'setting' if title == ELSEWHERE else 'variable'} | default | meaning |\n|---|---|---|\n"
    rows = (
        f"| `{name}` | {setting_facts.default_of(name, text)} | {text.meaning} |"
        for name, text in SECTIONS[title].items()
    )
    return head + "\n".join(rows) + "\n"
