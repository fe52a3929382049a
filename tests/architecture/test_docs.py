"""Checks of the documentation: it names everything that exists, and everything that it names exists."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable
from dataclasses import fields

import pytest
from django.core.management import get_commands, load_command_class

import portal
from compute_drivers.plugin import register_compute_drivers
from conductor import hookspecs
from conductor.core.compute_driver import CAPABILITIES, ComputeDriver
from conductor.rpc.codec import registered
from conductor.rpc.messages import Command
from conductor.workflows.catalog import FLOWS
from portal.environment import Environment, variable_names
from scheduler_plugins.plugin import register_filters, register_weighers
from tests.architecture.tree import PROJECT_DIR, documentation, own_files, read
from tools import plugin_reference, reference

WORD = re.compile(r"^\| (?!word |model )([^|`]*(?:`(\w+)`)?\)?) \| [^|]+ \| `([^`|]+)` \|$", re.MULTILINE)
TARGET = re.compile(r"^([a-z][a-z-]*):[^=\n]*?(?:## (.+))?$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
COMMAND = re.compile(r"(?:^|^ +\$? ?|`)(?:\.venv/bin/python )?(?:novella|manage\.py) ([a-z_]+\b[^`\n#]*)", re.MULTILINE)
LONGEST_DECISION_LINES = 60
LONGEST_CHANGELOG_LINES = 10
LONGEST_README_LINES = 90


def targets() -> dict[str, str]:
    """Makefile target → its one line of help; empty for the inner ones."""
    return dict(TARGET.findall(read("Makefile")))


def unnamed(names: Iterable[str], text: str) -> list[str]:
    """Return those of `names` that `text` has nowhere in code style or as a heading."""
    return [
        name
        for name in names
        if not re.search(rf"`[^`\n]*\b{re.escape(name)}\b[^`\n]*`|^#+ .*\b{re.escape(name)}\b", text, re.MULTILINE)
    ]


def modules_in(folder: str) -> list[str]:
    return [
        path.stem
        for path in own_files(".py")
        if path.parent == PROJECT_DIR.joinpath(folder).relative_to(PROJECT_DIR) and path.stem != "__init__"
    ]


def test_every_hook_is_documented() -> None:
    hooks = [name for name, value in vars(hookspecs).items() if hasattr(value, f"{hookspecs.PROJECT}_spec")]
    assert len(hooks) >= 3
    assert unnamed(hooks, read("docs/reference/plugin-hooks.md")) == []


def test_the_glossary_says_where_each_word_is_defined() -> None:
    page, *_ = read("docs/reference/glossary.md").partition("## Tables")
    words = WORD.findall(page)
    assert len(words) == page.count("\n| ") - page.count("\n| word ") > 120, "each word has a meaning and a module"
    assert [word for word, _, place in words if not (PROJECT_DIR / place).exists()] == []
    for word, name, place in words:
        if name and name not in ("vm_state", "task_state", "power_state"):
            assert re.search(rf"^(class|def) {name}\b", read(place), re.MULTILINE), f"{word} is not in {place}"


@pytest.mark.parametrize("path", reference.PAGES)
def test_generated_pages_say_what_the_code_says(path: str) -> None:
    assert reference.PAGES[path]() == read(path), "Run: make reference"


def test_every_hook_has_a_class_in_the_reference() -> None:
    bases = {plugin_reference.base_of(hook).__name__ for hook in plugin_reference.hooks().values()}
    assert len(bases) == len(plugin_reference.hooks()) >= 11


def test_every_filter_and_weigher_is_documented() -> None:
    shipped = [plugin.name for plugin in (*register_filters(), *register_weighers())]
    assert len(shipped) == len(set(shipped)) > 0
    assert unnamed(shipped, read("docs/reference/plugin-hooks.md")) == []


def test_every_filter_and_weigher_that_is_there_ships() -> None:
    shipped = {plugin.__module__ for plugin in (*register_filters(), *register_weighers())}
    there = {
        f"scheduler_plugins.{kind}.{name}"
        for kind in ("filters", "weighers")
        for name in modules_in(f"scheduler_plugins/{kind}")
    }
    assert there - shipped == set()


def test_every_driver_is_documented() -> None:
    assert unnamed(register_compute_drivers(), read("docs/reference/compute-drivers.md")) == []


def test_every_capability_and_verb_of_drivers_is_documented() -> None:
    page = read("docs/reference/compute-drivers.md")
    verbs = [name for name, value in vars(ComputeDriver).items() if callable(value) and not name.startswith("__")]
    assert len(verbs) > 30
    assert unnamed([*CAPABILITIES, *verbs], page) == []
    rows = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert [name for name in CAPABILITIES if name not in rows] == []


def test_every_command_to_a_host_is_documented() -> None:
    commands = [name for name, (kind, _) in registered().items() if issubclass(kind, Command)]
    assert len(commands) > 25
    assert unnamed(commands, read("docs/reference/compute-agent.md")) == []


def test_every_setting_is_documented_and_no_other() -> None:
    rows = re.findall(r"^\| `(NOVELLA_[A-Z_]+)` \|", read("docs/reference/configuration.md"), re.MULTILINE)
    only_in_file = set(re.findall(r"^(NOVELLA_[A-Z_]+)", read("portal/settings.py"), re.MULTILINE))
    assert sorted(rows) == sorted(only_in_file | set(variable_names()))


def test_documented_defaults_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| `NOVELLA_([A-Z_]+)` \| (.*?) \| ", read("docs/reference/configuration.md"), re.MULTILINE)
    documented = {name.lower(): default for name, default in rows}
    defaults = {item.name: item.metadata["default"] for item in fields(Environment) if item.metadata}
    assert len(defaults) > 80
    # An empty default is described in words.
    assert {name: documented[name] for name, value in defaults.items() if value} == {
        name: f"`{value}`" for name, value in defaults.items() if value
    }
    assert [name for name, value in defaults.items() if not value and not re.search(r"[a-z]", documented[name])] == []


def test_no_text_names_a_setting_that_does_not_exist() -> None:
    known = set(variable_names()) | set(re.findall(r"^(NOVELLA_[A-Z_]+)", read("portal/settings.py"), re.MULTILINE))
    texts = {str(path): set(re.findall(r"\bNOVELLA_[A-Z_]*[A-Z]\b", read(path))) for path in own_files(".md")}
    # The page on configuration shows what a mistyped name is answered with.
    assert {path: names - known for path, names in texts.items() if names - known} == {
        "docs/reference/configuration.md": {"NOVELLA_PROT"}
    }


def test_every_flow_and_step_is_documented() -> None:
    page = read("docs/reference/workflows.md")
    assert [flow.name for flow in FLOWS if not re.search(rf"^## {flow.name}$", page, re.MULTILINE)] == []
    assert [step.name for flow in FLOWS for step in flow.steps if f"| {step.name} |" not in page] == []


def test_every_command_is_documented() -> None:
    commands = modules_in("conductor/management/commands")
    assert commands != []
    assert unnamed(commands, documentation()) == []


def unknown_words(line: str) -> list[str]:
    """Return the command, action and options of a command line that the parsers do not know."""
    name, *words = line.split()
    if name == "help":
        return []
    if name not in get_commands():
        return [name]
    parser = load_command_class(get_commands()[name], name).create_parser("novella", name)
    options = set(parser._option_string_actions)
    for group in [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]:
        action = next((word for word in words if not word.startswith("-")), "ACTION")
        if action in group.choices:
            options |= set(group.choices[action]._option_string_actions)
        elif action.islower():
            return [action]
    return [word for word in words if word.startswith("--") and word.partition("=")[0] not in options]


def test_every_command_line_of_the_documentation_is_understood() -> None:
    pages = [str(path) for path in own_files(".md") if path.parts[0] in ("README.md", "CONTRIBUTING.md", "docs")]
    lines = [(page, line) for page in pages for line in COMMAND.findall(read(page))]
    assert len(lines) > 180
    assert [(page, line) for page, line in lines if unknown_words(line)] == []


@pytest.mark.parametrize(
    ("line", "unknown"),
    [
        ("web --port 8000", []),
        ("serve --port 8000", ["serve"]),
        ("plugins list --kind filter", []),
        ("plugins lists", ["lists"]),
        ("drain rack1-03 --now", ["--now"]),
    ],
)
def test_unknown_words_of_a_command_line_are_found(line: str, unknown: list[str]) -> None:
    assert unknown_words(line) == unknown


def test_every_target_has_help_and_is_documented() -> None:
    inner = {"setup", "setup-dev"}
    assert {name for name, line in targets().items() if not line} == inner
    documented = re.findall(r"^\| `make ([a-z-]+)` \|", read("CONTRIBUTING.md"), re.MULTILINE)
    assert sorted(documented) == sorted(targets().keys() - inner)


def test_the_map_names_what_exists() -> None:
    paths = re.findall(r"`((?:[a-z_]+/)+[a-z_0-9.]*)`", read("CONTRIBUTING.md").partition("## The map")[2])
    assert len(paths) > 25
    assert [path for path in paths if not (PROJECT_DIR / path).exists()] == []


def test_the_readme_names_targets_that_exist() -> None:
    named = set(re.findall(r"^    make ([a-z-]+)|`make ([a-z-]+)`", read("README.md"), re.MULTILINE))
    assert {first or second for first, second in named} <= targets().keys()
    assert {"run", "test"} <= {first for first, _ in named}


@pytest.mark.parametrize("page", [str(path) for path in own_files(".md")])
def test_every_link_leads_somewhere(page: str) -> None:
    folder = (PROJECT_DIR / page).parent
    inner = [
        link.partition("#")[0] for link in LINK.findall(read(page)) if "://" not in link and not link.startswith("#")
    ]
    assert [link for link in inner if not (folder / link).exists()] == []


# Decisions open with their question.
PAGES = [str(path) for path in own_files(".md") if path.parts[0] == "docs" and "/decisions/0" not in str(path)]


@pytest.mark.parametrize("page", PAGES)
def test_each_page_opens_with_what_it_is_for(page: str) -> None:
    title, _, first = read(page).split("\n", 2)
    assert title.startswith("# ")
    assert re.match(r"(This|These|In this|You) ", first)


def test_the_readme_fits_on_a_page_and_its_first_screen_has_the_commands_and_a_screen() -> None:
    lines = read("README.md").splitlines()
    assert len(lines) <= LONGEST_README_LINES
    first_screen = "\n".join(lines[:20])
    assert "    make run" in first_screen
    assert "    make test" in first_screen
    assert "![" in first_screen


def test_decisions_are_numbered_short_and_listed() -> None:
    pages = sorted(
        path.name
        for path in own_files(".md")
        if path.parts[:3] == ("docs", "explanation", "decisions") and path.name != "index.md"
    )
    assert [page[:4] for page in pages] == [f"{number:04}" for number in range(1, len(pages) + 1)]
    assert re.findall(r"\]\((\d{4}-[a-z0-9-]+\.md)\)", read("docs/explanation/decisions/index.md")) == pages
    for page in pages:
        lines = read(f"docs/explanation/decisions/{page}").splitlines()
        assert lines[0].startswith(f"# {page[:4]}: ")
        assert [line for line in lines if line.startswith("## ")] == ["## Question", "## Decision", "## Why", "## Cost"]
        assert len(lines) <= LONGEST_DECISION_LINES


def test_notes_for_the_next_release_have_a_kind() -> None:
    kind = re.compile(r"[a-z0-9-]+\.(added|changed|fixed|removed|security)\.md")
    notes = [path.name for path in own_files(".md") if path.parts[0] == "changelog.d" and path.name != "README.md"]
    assert [note for note in notes if not kind.fullmatch(note)] == []


def test_the_changelog_has_at_most_ten_lines_under_each_heading() -> None:
    kinds = {"Added", "Changed", "Fixed", "Removed", "Security"}
    parts = re.split(r"^### (\w+)$", read("CHANGELOG.md"), flags=re.MULTILINE)[1:]
    sections = list(zip(parts[::2], parts[1::2], strict=True))
    assert sections != []
    assert {title for title, _ in sections} <= kinds
    counts = [(title, sum(line.startswith(("- ", "  ")) for line in text.splitlines())) for title, text in sections]
    assert [section for section in counts if section[1] > LONGEST_CHANGELOG_LINES] == []


def test_the_numbers_of_the_release_agree() -> None:
    assert portal.__version__ == json.loads(read("package.json"))["version"]
