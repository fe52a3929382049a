"""Finds every translatable text, and keeps the translation catalogues up to date: `make words`.

Three kinds of files hold texts: templates mark them with `{% translate %}`, Python marks sentences with `gettext`, and
scripts with `say` and `sayCount`. Descriptions as data (columns, fields, states, actions) stay plain English and are
translated when they are rendered, by the filter `say`; the tables below name these descriptions.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from babel.messages import extract, pofile
from babel.messages.catalog import Catalog, Message

PROJECT_DIR = Path(__file__).resolve().parent.parent
LOCALE_DIR = PROJECT_DIR / "portal" / "locale"
LANGUAGES = ("de",)
PLURALS = {"gettext": None, "_": None, "ngettext": (1, 2)}
SCRIPT_PLURALS = {"gettext": None, "ngettext": (1, 2)}
# The positional arguments of a description that are displayed; keyword arguments are below.
DESCRIBED: Mapping[str, tuple[int, ...]] = {
    "Advice": (1, 2),
    "FieldOption": (1,),
    "Column": (0,),
    "StatusBadge": (1, 2),
    "Field": (1,),
    "Intervention": (1, 5),
    "DiscrepancyKind": (1,),
    "Measure": (1,),
    "MigrationAction": (1, 2),
    "RelatedTable": (0,),
    "SearchGroup": (0,),
    "NavigationEntry": (0, 5),
    "_CellAction": (1, 2),
    "_HostAction": (1, 2),
    "_creation": (1, 2),
    "_number_field": (1,),
    "View": (0,),
    "own": (1,),
    "word": (0,),
}
DESCRIBED_BY_KEYWORD = frozenset(
    {"title", "does", "label", "help", "nothing", "empty", "reveal_name", "group", "heading", "risk", "detail"}
)
# Assignments of which all strings are displayed: the values of mappings, everything else as a whole.
TABLES = frozenset(
    {
        "FLOW_WORDS",
        "STATE_WORDS",
        "BINARY_WORDS",
        "WAIT_WORDS",
        "ALL_COLUMNS",
        "COLUMN_WORDS",
        "BULK_ACTIONS",
        "SPANS",
        "HOW_WORDS",
        "GROUPINGS",
        "STEER_WORDS",
        "NOUNS",
        "THEMES",
        "DENSITIES",
        "FATES",
        "COMPUTE_WORDS",
        "VOLUME_WORDS",
        "NETWORK_WORDS",
        "IMAGE_WORDS",
        "ROW_WORDS",
        "ROW_DEFAULT_WORDS",
        "SHOWN",
        "CAUSES",
        "SNOOZES",
        "CONFIDENCE_WORDS",
        "PHASE_NAMES",
        "PLUGIN_NAMES",
        "NAMES",
        "TITLES",
        "TABS",
        "FACETS",
        "CLASS_WORDS",
        "LAW_WORDS",
        "WAYS",
        "BEGUN",
    }
)
DESCRIPTIONS = ("portal/pages", "conductor/services", "conductor/core/states.py", "conductor/core/interventions.py")
STATES = "conductor/core/states.py"
SPEAKERS = ("conductor", "compute_drivers", "scheduler_plugins")  # packages with messages
STEPS = "conductor/workflows"
PLUGINS = ("scheduler_plugins", "compute_drivers", "conductor/core/scheduling", "conductor/core/metrics.py")
SENTENCE = re.compile(r"[A-Z“][^\n]* [^\n]*\.")
TEXT = re.compile(r"^(?!.*\.html$|flow$|cause$|owner$).*[a-z]{2}")  # neither codes nor files
LITERAL = re.compile(r'_\("([^"]+)"\)')

Texts = dict[str, str]  # text → its plural, empty where it has none


def texts_of_pages() -> Texts:
    """Return the texts in templates and Python."""
    found: Texts = {}
    for path in sorted((PROJECT_DIR / "templates").rglob("*.html")):
        found |= _of_template(path)
    for path in _python_files("portal"):
        if "gettext" in path.read_text():
            with path.open("rb") as file:
                found |= _pairs(extract.extract("python", file, PLURALS))
    for root in DESCRIPTIONS:
        for path in _python_files(root):
            is_page = path.is_relative_to(PROJECT_DIR / "portal")
            found |= dict.fromkeys(_described(ast.parse(path.read_text()), with_sentences=is_page), "")
    found |= _phrases()
    found |= _messages()
    found |= dict.fromkeys(_states(), "")
    found |= dict.fromkeys(_step_titles(), "")
    found |= dict.fromkeys(_plugin_descriptions(), "")
    found |= dict.fromkeys(_settings(), "")
    return found | _nouns()


def texts_of_scripts() -> Texts:
    """Return the texts in scripts."""
    found: Texts = {}
    for path in sorted((PROJECT_DIR / "portal" / "static" / "novella" / "js").rglob("*.js")):
        with path.open("rb") as file:
            found |= _pairs(extract.extract("javascript", file, SCRIPT_PLURALS))
    return found


def read(language: str, domain: str) -> Catalog:
    """Return a catalogue; an empty one if there is none yet."""
    path = _path(language, domain)
    if not path.exists():
        return Catalog(locale=language)
    with path.open("rb") as file:
        return pofile.read_po(file, locale=language, abort_invalid=True)


def bring_up_to_date(language: str, domain: str, texts: Texts) -> tuple[list[str], list[str]]:
    """Add missing texts, without a translation, and remove unused ones; returns both."""
    before = read(language, domain)
    after = Catalog(locale=language, fuzzy=False, project="Novella", charset="utf-8")
    after.mime_headers = [(name, value) for name, value in after.mime_headers if "Date" not in name]
    missing = []
    for text in sorted(texts, key=str.casefold):
        identity: str | tuple[str, str] = (text, texts[text]) if texts[text] else text
        kept = before.get(text)
        string = kept.string if kept is not None and bool(texts[text]) == isinstance(kept.string, tuple) else ""
        message = after.add(identity, string, flags=["python-format"] if "%(" in text else [])
        if not all(strings_of(message)):
            missing.append(text)
    gone = sorted(text_of(message) for message in before if message.id and text_of(message) not in texts)
    _write(_path(language, domain), after)
    return missing, gone


def _write(path: Path, catalogue: Catalog) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    head = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=utf-8\\n"\n'
    head += f'"Language: {catalogue.locale}\\n"\n"Plural-Forms: {catalogue.plural_forms}\\n"\n'
    with path.open("wb") as file:
        file.write(head.encode())
        file.write(b"\n")
        pofile.write_po(file, catalogue, omit_header=True, width=0, no_location=True)


def _path(language: str, domain: str) -> Path:
    return LOCALE_DIR / language / "LC_MESSAGES" / f"{domain}.po"


def text_of(message: Message) -> str:
    """Return the text that an entry of a catalogue translates."""
    return message.id[0] if isinstance(message.id, tuple | list) else str(message.id)


def strings_of(message: Message) -> tuple[str, ...]:
    """Return an entry's translations: one, or one for each plural form."""
    return tuple(message.string) if isinstance(message.string, tuple | list) else (str(message.string),)


def _python_files(root: str) -> list[Path]:
    path = PROJECT_DIR / root
    return [path] if path.suffix else sorted(path.rglob("*.py"))


def _pairs(found: Iterable[tuple[int, str | tuple[str, ...], list[str], str | None]]) -> Texts:
    texts: Texts = {}
    for _, reported, _, _ in found:
        if isinstance(reported, tuple):
            texts[reported[0]] = reported[1]
        elif reported:
            texts[reported] = ""
    return texts


def _of_template(path: Path) -> Texts:
    from django.template import Engine
    from django.templatetags.i18n import BlockTranslateNode, TranslateNode

    template = Engine.get_default().get_template(str(path.relative_to(PROJECT_DIR / "templates")))
    texts: Texts = {}
    for node in template.nodelist.get_nodes_by_type(TranslateNode):
        assert isinstance(node, TranslateNode)
        reported = node.filter_expression.var
        texts[reported if isinstance(reported, str) else str(reported.literal)] = ""
    for node in template.nodelist.get_nodes_by_type(BlockTranslateNode):
        assert isinstance(node, BlockTranslateNode)
        text = node.render_token_list(node.singular)[0]
        texts[text] = node.render_token_list(node.plural)[0] if node.plural else ""
    return texts | dict.fromkeys(LITERAL.findall(path.read_text()), "")


def _described(tree: ast.Module, *, with_sentences: bool) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from _of_call(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id.lstrip("_") in TABLES for target in targets):
                yield from _values(node.value)
    if with_sentences:
        yield from _sentences(tree)


def _of_call(node: ast.Call) -> Iterator[str]:
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    for place in DESCRIBED.get(name, ()):
        if place < len(node.args):
            yield from _values(node.args[place])
    for keyword in node.keywords:
        if keyword.arg in DESCRIBED_BY_KEYWORD:
            yield from _values(keyword.value)
        elif keyword.arg == "tool" and isinstance(keyword.value, ast.Tuple):
            yield from _values(keyword.value.elts[1])
        elif keyword.arg == "words" and isinstance(keyword.value, ast.Dict):
            yield from _values(keyword.value)


def _values(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and TEXT.search(node.value):
        yield node.value
    elif isinstance(node, ast.Dict):
        for value in node.values:
            yield from _values(value)
    elif isinstance(node, ast.Tuple | ast.List):
        for value in node.elts:
            yield from _values(value)
    elif isinstance(node, ast.IfExp):
        yield from _values(node.body)
        yield from _values(node.orelse)


def _sentences(tree: ast.Module) -> Iterator[str]:
    passed_over = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    passed_over |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") in PLURALS]
    passed_over |= {id(argument) for call in calls for argument in call.args}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in passed_over else None
        if isinstance(text, str) and SENTENCE.fullmatch(text):
            yield text


def _phrases() -> Texts:
    """Return the sentences of services, as `phrase` and `phrases` of `conductor/core/phrases.py` build them."""
    found: Texts = {}
    for path in _python_files("conductor"):
        if "phrases import" not in path.read_text():
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            name = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
            if isinstance(node, ast.Call) and name in ("phrase", "phrases"):
                texts = [*map(_literal, node.args[:2]), ""]
                if texts[0]:
                    found[texts[0]] = texts[1] if name == "phrases" else ""
    return found


def _messages() -> Texts:
    """Return the texts of messages and the words in them: all of `WORDS`, and those of each `word("…")`."""
    from conductor.core.texts import TEXTS, WORDS
    from conductor.core.texts.forms import Plural

    found: Texts = dict.fromkeys(WORDS, "")
    for text in TEXTS.values():
        found |= {text.one: text.many} if isinstance(text, Plural) else {text: ""}
    for path in (path for root in SPEAKERS for path in _python_files(root)):
        if "core.messages import" in path.read_text():
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "word" and node.args:
                    found |= dict.fromkeys(_values(node.args[0]), "")
    return found


def _literal(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _states() -> Iterator[str]:
    """Yield the words of states of workflows and steps."""
    for node in ast.parse((PROJECT_DIR / STATES).read_text()).body:
        if isinstance(node, ast.ClassDef) and node.name in ("RunState", "StepState"):
            for line in node.body:
                if isinstance(line, ast.Assign):
                    yield from _values(line.value)


def _step_titles() -> Iterator[str]:
    for path in _python_files(STEPS):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                for line in node.body:
                    targets = line.targets if isinstance(line, ast.Assign) else [getattr(line, "target", None)]
                    if any(isinstance(target, ast.Name) and target.id == "title" for target in targets):
                        value = getattr(line, "value", None)
                        yield from _values(value) if value is not None else ()


def _plugin_descriptions() -> Iterator[str]:
    """Yield the descriptions of built-in plugins and their options, as the plugin catalogue shows them."""
    for path in (path for root in PLUGINS for path in _python_files(root)):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and _is_named(node):
                yield (ast.get_docstring(node) or "").partition("\n")[0].replace("`", "")
            elif isinstance(node, ast.Dict):
                pairs = zip(node.keys, node.values, strict=True)
                yield from (_literal(value) for key, value in pairs if key and _literal(key) == "description")


def _settings() -> list[str]:
    """Return the documentation's texts about variables, as the settings page shows them."""
    from portal import setting_facts

    return setting_facts.words()


def _is_named(node: ast.ClassDef) -> bool:
    """Return whether a class is a plugin itself, not a base class of several."""
    if node.name.endswith("Driver"):
        return True
    targets = [target for line in node.body if isinstance(line, ast.Assign) for target in line.targets]
    return any(isinstance(target, ast.Name) and target.id == "name" for target in targets)


def _nouns() -> Texts:
    """Return the counted nouns with their plurals, from the filter `counted`."""
    found: Texts = {}
    for path in _python_files("portal/pages"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "noun" and isinstance(node.value, ast.Constant):
                noun = str(node.value.value)
                found[noun] = f"{noun}s"
    return found


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    import django

    django.setup()
    for language in LANGUAGES:
        for domain, texts in (("django", texts_of_pages()), ("djangojs", texts_of_scripts())):
            missing, gone = bring_up_to_date(language, domain, texts)
            print(f"{language} {domain}: {len(texts)} texts, {len(missing)} without a translation, {len(gone)} dropped")
            for text in missing:
                print(f"  {text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
