"""The documentation's site: it builds without a warning, all links lead somewhere, and it needs no other host."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[3]
FOREIGN_URL = re.compile(r"(?:url\(|@import )[\"']?(?:https?:)?//[^\"')]+")
LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src"}


class Page(HTMLParser):
    """The links, resources and ids of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.ids.add(found.get("id") or "")
        if tag == "a" and found.get("href"):
            self.links.append(str(found["href"]))
        if tag in LOADED and found.get(LOADED[tag]):
            self.loaded.append(str(found[LOADED[tag]]))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make site` builds it."""
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-E",
        "-W",
        "--keep-going",
        "-q",
        "-b",
        "html",
        "-d",
        str(folder / "kept"),
    ]
    done = subprocess.run(
        [*command, "docs", str(folder / "html")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


def broken(pages: dict[Path, Page]) -> Iterator[str]:
    """Yield the links that lead to no file, or to no place in their page."""
    for path, page in pages.items():
        for link in (*page.links, *page.loaded):
            parts = urlsplit(link)
            if parts.scheme or link == "#":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file() or (parts.fragment and target in pages and parts.fragment not in pages[target].ids):
                yield f"{path.name}: {link}"


def test_every_page_is_built_and_every_link_leads_somewhere(pages: dict[Path, Page], site: Path) -> None:
    written = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert written <= {path.relative_to(site) for path in pages}
    assert sum(len(page.links) for page in pages.values()) > 1000
    assert list(broken(pages)) == []


def test_the_site_loads_nothing_from_other_hosts(pages: dict[Path, Page], site: Path) -> None:
    assert [link for page in pages.values() for link in page.loaded if urlsplit(link).netloc] == []
    styles = [path.read_text(encoding="utf-8") for path in site.rglob("*.css")]
    assert styles != []
    assert [url for style in styles for url in FOREIGN_URL.findall(style)] == []


def test_the_site_is_searchable(site: Path) -> None:
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    found = json.loads(index.removeprefix("Search.setIndex(").removesuffix(")"))
    hits = found["terms"]["fenc"]  # words are kept by their stems
    names = [found["docnames"][hit] for hit in (hits if isinstance(hits, list) else [hits])]
    assert "explanation/architecture" in names
    assert "reference/glossary" in names


def test_diagrams_are_drawn_into_the_pages(site: Path) -> None:
    text = (site / "reference" / "workflows.html").read_text(encoding="utf-8")
    assert text.count('<svg class="sequence"') == (ROOT / "docs/reference/workflows.md").read_text().count("```mermaid")
    assert "```mermaid" not in text
    assert "sequenceDiagram" not in text
