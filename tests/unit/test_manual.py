"""The command line explains itself: help that reads like a manual page, examples that parse, completion."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from functools import cache

import pytest
from django.core.management import get_commands, load_command_class

from conductor.manual import DJANGO_OPTIONS, Manual, ManualCommand, manual_of
from portal import cli, completion

pytestmark = pytest.mark.unit
NAMES = [name for names in cli.GROUPS.values() for name in names]
OWN = ("conductor", "portal")


@cache
def command_of(name: str) -> ManualCommand:
    found = load_command_class(get_commands()[name], name)
    assert isinstance(found, ManualCommand), name
    return found


def parts(words: str, manual: Manual) -> Iterator[tuple[str, Manual]]:
    yield words, manual
    for name, one in manual.actions.items():
        yield from parts(f"{words} {name}", one)


def complete(*words: str) -> list[str]:
    """Return the words that bash offers for the last one."""
    script = completion.script("bash", cli.manuals())
    line = f"COMP_WORDS=(novella {shlex.join(words)}); COMP_CWORD={len(words)}; _novella; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", f"{script}\n{line}"], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_the_help_lists_all_commands_of_the_project_with_a_line_each() -> None:
    own = {name for name, application in get_commands().items() if application in OWN}
    assert sorted(NAMES) == sorted(own)
    text = cli.help_text("novella")
    for name in (*own, *cli.DJANGO_COMMANDS):
        (line,) = [line for line in text.splitlines() if line.split()[:1] == [name]]
        assert line.endswith(".")
        assert len(line) < 100
    assert "'novella up' starts all of it" in text
    assert "'novella --version' prints the version" in text


@pytest.mark.parametrize("name", NAMES)
def test_the_help_of_a_command_reads_like_a_manual_page(name: str) -> None:
    command = command_of(name)
    text = command.create_parser("novella", name).format_help()
    assert text.startswith(f"usage: novella {name}")
    assert "\nexit codes:\n  0  " in text
    assert [option for option in DJANGO_OPTIONS if option in text] == [], "Django's options hide those of the command"
    assert all(f"  novella {words}" in text for words in command.examples)
    for words, manual in parts(name, manual_of(command)):
        assert manual.text.endswith("."), words
        assert [one.name for one in manual.arguments if not one.text] == [], words


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_of_a_command_are_accepted(name: str) -> None:
    command = command_of(name)
    parser = command.create_parser("novella", name)
    for words in command.examples:
        first, *others = shlex.split(words.partition(" >")[0])
        assert first == name
        parser.parse_args(others)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["up"], ["up", "upgrade_check"]),
        (["hosts", "en"], ["enroll"]),
        (["hosts", "enroll", "rack1-03", "--"], ["--cell", "--file", "--token", "--seconds"]),
        (["plugins", "list", "--kind", ""], ["filter", "weigher"]),
        (["startplugin", "d"], ["driver"]),
        (["hosts", "enroll", "--cell", ""], []),
    ],
)
def test_bash_completes_commands_actions_options_and_values(words: list[str], offered: list[str]) -> None:
    assert complete(*words) == offered


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_each_shell_knows_every_command_and_option(shell: str) -> None:
    script = completion.script(shell, cli.manuals())
    for name, command in cli.manuals().items():
        for words, manual in parts(f"novella {name}", command):
            assert words in script
            option = (lambda one: f"-l {one[2:]} ") if shell == "fish" else str
            assert [one.name for one in manual.arguments if one.is_option and option(one.name) not in script] == []
