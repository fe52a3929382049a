"""The tables of docs/reference/configuration.md: the settings with their defaults and meanings. Other text is kept."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from portal import setting_facts
from portal.setting_texts import ELSEWHERE, SECTIONS
from tools.page_sections import with_sections

PROJECT_DIR = Path(__file__).resolve().parent.parent
PAGE = PROJECT_DIR / setting_facts.PAGE
TABLE = re.compile(r"^\| (?:variable|setting) \| default \| meaning \|\n(?:\|.*\n)+", re.MULTILINE)


def page() -> str:
    """Return the page with its tables as the code has them. A section without a table gets one after its heading."""
    return with_sections(PAGE, {title: partial(_with_table, title) for title in SECTIONS})


def _with_table(title: str, text: str) -> str:
    if not SECTIONS[title]:
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
