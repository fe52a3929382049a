"""Texts of pages and scripts: all marked, translated into every language, and none unused."""

from __future__ import annotations

import inspect
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from compute_drivers import plugin as drivers
from portal import languages
from portal.templatetags import words
from scheduler_plugins import plugin as scheduler
from tools import catalogues

ROOT = Path(__file__).parents[2]
TAG = re.compile(r"{%.*?%}|{{.*?}}|{#.*?#}", re.DOTALL)
MARKED = re.compile(r"{% blocktranslate.*?{% endblocktranslate %}", re.DOTALL)
TEXT_ATTRIBUTES = {"title", "aria-label", "placeholder", "alt", "label", "data-name"}
# Names, symbols of units and words of protocols, which are the same everywhere.
SAME = {
    *("Novella", "API", "CSV", "OpenAPI", "UTC", "CPU", "vCPU", "NUMA", "MAC", "JSON", "SVG", "Id"),
    *("KB", "MB", "GB", "TB", "ms", "min", "Ctrl", "Enter", "Esc", "POST", "compute", "v2", "servers", "X-Auth-Token"),
}
PLACEHOLDER = re.compile(r"%\(\w+\)s|{\w+}")


class Texts(HTMLParser):
    """The text that is left of a template once every marked text is removed."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._within: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {"script", "style", "code", "pre", "kbd"}:
            self._within.append(tag)
        self.found += [value or "" for name, value in attrs if name in TEXT_ATTRIBUTES]

    def handle_endtag(self, tag: str) -> None:
        if self._within and self._within[-1] == tag:
            self._within.pop()

    def handle_data(self, data: str) -> None:
        if not self._within:
            self.found.append(data)


def unmarked(source: str) -> list[str]:
    """Return the texts of a template that no tag marks."""
    reader = Texts()
    reader.feed(TAG.sub("", MARKED.sub("", source)))
    found = [" ".join(text.split()) for text in reader.found]
    return [text for text in found if set(re.findall(r"[A-Za-z][A-Za-z0-9-]+", text)) - SAME]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("<p>Plain words</p>", ["Plain words"]),
        ('<p>{% translate "Marked" %}</p>', []),
        ("<p>{% blocktranslate %}Marked {{ name }}{% endblocktranslate %}</p>", []),
        ('<a title="A title">{{ x }}</a>', ["A title"]),
        ('<a class="button" href="/x">{{ size }} GB</a><code>openstack</code>', []),
        ("{% if x %}on this page{% endif %}", ["on this page"]),
    ],
)
def test_unmarked_texts_of_templates_are_found(source: str, found: list[str]) -> None:
    assert unmarked(source) == found


def test_templates_mark_every_text() -> None:
    templates = sorted((ROOT / "templates").rglob("*.html"))
    wrong = {str(path.relative_to(ROOT)): unmarked(path.read_text()) for path in templates}
    assert {path: texts for path, texts in wrong.items() if texts} == {}


@pytest.fixture(scope="module")
def found_texts() -> dict[str, catalogues.Texts]:
    return {"django": catalogues.texts_of_pages(), "djangojs": catalogues.texts_of_scripts()}


@pytest.mark.parametrize("domain", ["django", "djangojs"])
@pytest.mark.parametrize("language", catalogues.LANGUAGES)
def test_every_text_has_a_translation(found_texts: dict[str, catalogues.Texts], language: str, domain: str) -> None:
    catalogue = catalogues.read(language, domain)
    kept = {catalogues.text_of(message): message for message in catalogue if message.id}
    empty = [text for text, message in kept.items() if not all(catalogues.strings_of(message))]
    missing = sorted(found_texts[domain].keys() - kept.keys())
    left_over = sorted(kept.keys() - found_texts[domain].keys())
    fuzzy = [text for text, message in kept.items() if message.fuzzy]
    obsolete = [str(message.id) for message in catalogue.obsolete.values()]
    wrong = {"missing": missing, "empty": empty, "left over": left_over, "fuzzy": fuzzy, "obsolete": obsolete}
    assert {what: texts for what, texts in wrong.items() if texts} == {}, (
        "`make words` lists messages without a translation"
    )


def test_descriptions_of_plugins_are_found(found_texts: dict[str, catalogues.Texts]) -> None:
    shipped = [
        *scheduler.register_filters(),
        *scheduler.register_weighers(),
        *drivers.register_compute_drivers().values(),
    ]
    descriptions = {(inspect.getdoc(one) or "").splitlines()[0].replace("`", "") for one in shipped}
    options = {
        rule.get("description", "") for one in shipped for rule in getattr(one, "options_schema", {}).values()
    } - {""}
    assert descriptions | options <= found_texts["django"].keys()


@pytest.mark.parametrize("domain", ["django", "djangojs"])
@pytest.mark.parametrize("language", catalogues.LANGUAGES)
def test_translations_name_what_their_texts_name(language: str, domain: str) -> None:
    wrong = []
    for message in catalogues.read(language, domain):
        ids = message.id if isinstance(message.id, tuple | list) else [message.id]
        allowed = {name for text in ids for name in PLACEHOLDER.findall(text)}
        for string in catalogues.strings_of(message) if message.id else ():
            named = set(PLACEHOLDER.findall(string))
            if not named <= allowed or (len(ids) == 1 and named != allowed):
                wrong.append(string)
    assert wrong == []


def test_a_catalogue_is_compiled_where_it_is_newer(tmp_path: Path) -> None:
    folder = tmp_path / "de" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    source = folder / "django.po"
    source.write_text('msgid ""\nmsgstr "Content-Type: text/plain; charset=utf-8\\n"\n\nmsgid "One"\nmsgstr "Eins"\n')
    assert languages.compile_catalogues(tmp_path) == [folder / "django.mo"]
    assert b"Eins" in (folder / "django.mo").read_bytes()
    assert languages.compile_catalogues(tmp_path) == []
    assert sorted(path.name for path in folder.iterdir()) == ["django.mo", "django.po"]


def test_words_follow_the_language() -> None:
    from django.utils import translation

    with translation.override("de"):
        assert words.say("Servers") == "Server"
        assert words.say("web-1 of nobody") == "web-1 of nobody"
        assert (words.counted("volume", 1), words.counted("network", 2)) == ("Volume", "Netze")
        assert words.inside("Netze") == "Netze"
    with translation.override("en"):
        assert (words.say("Servers"), words.counted("volume", 2), words.inside("Volumes")) == (
            "Servers",
            "volumes",
            "volumes",
        )


@pytest.mark.parametrize(
    ("header", "language"),
    [("de-AT,de;q=0.9,en;q=0.5", "de"), ("en-GB,de;q=0.2", "en"), ("fr, *;q=0.1", "en"), ("", "en"), ("\x00;;q", "en")],
)
def test_the_language_of_a_browser_is_taken_from_its_header(header: str, language: str) -> None:
    assert languages.of_header(header) == language
