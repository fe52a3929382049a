"""The text of docs/reference/commands.md: every command with its actions, options, exit codes and examples."""

from __future__ import annotations

from collections.abc import Iterator

from django.core.management import get_commands, load_command_class

from conductor.manual import Argument, Manual, ManualCommand, manual_of
from portal.cli import DJANGO_COMMANDS, GROUPS

HEAD = """# Commands

This page lists every command of `novella` with its options, exit codes and examples. `make reference` writes it from
the code. `novella --help` lists the commands, and `novella COMMAND --help` shows what this page says of one.

In a checkout, write `.venv/bin/python manage.py` instead of `novella`. Every command ends with 2 when an option or a
[setting](configuration.md) is wrong, and says which. `novella completion SHELL` prints a script that completes commands
and options in bash, zsh or fish.
"""


def page() -> str:
    return "\n".join([HEAD, *_groups(), *_django()])


def _groups() -> Iterator[str]:
    commands = get_commands()
    for title, names in GROUPS.items():
        yield f"## {title}\n"
        for name in names:
            command = load_command_class(commands[name], name)
            if not isinstance(command, ManualCommand):
                raise TypeError(f"{name} has no manual page")
            yield from _command(name, command)


def _command(name: str, command: ManualCommand) -> Iterator[str]:
    yield f"### {name}\n"
    manual = manual_of(command)
    yield from _manual(f"novella {name}", manual)
    for action, one in manual.actions.items():
        yield f"#### {name} {action}\n"
        yield from _manual(f"novella {name} {action}", one)
    yield "| exit code | meaning |\n|---|---|"
    yield from (f"| {code} | {meaning} |" for code, meaning in command.exit_codes.items())
    yield ""
    if command.examples:
        yield from (f"    novella {words}  # {text}" for words, text in command.examples.items())
        yield ""


def _manual(words: str, manual: Manual) -> Iterator[str]:
    options = " [options]" if any(one.is_option for one in manual.arguments) else ""
    positional = "".join(f" {one.name.upper()}" for one in manual.arguments if not one.is_option)
    action = " ACTION" if manual.actions else ""
    yield f"    {words}{action}{positional}{options}\n"
    yield f"{manual.text}\n"
    if manual.arguments:
        yield "| argument | meaning |\n|---|---|"
        yield from (f"| `{_shown(one)}` | {_meaning(one)} |" for one in manual.arguments)
        yield ""


def _shown(one: Argument) -> str:
    if not one.is_option:
        return one.name.upper()
    return f"{one.name} {one.value.replace('|', ' or ')}".strip()


def _meaning(one: Argument) -> str:
    notes = [f": {', '.join(one.choices)}"] if one.choices and not one.is_option else []
    notes += [" (required)"] if one.is_option and one.is_required else []
    return one.text.replace("|", "\\|") + "".join(notes)


def _django() -> Iterator[str]:
    yield "## Commands of Django\n"
    yield "| command | what it does |\n|---|---|"
    yield from (f"| `{name}` | {text} |" for name, text in DJANGO_COMMANDS.items())
    yield ""
    yield "`novella help --commands` prints the names of all other commands of Django and its libraries."
    yield ""
