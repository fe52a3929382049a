"""The command base class: `--help` reads like a manual page, and other modules can read what a command accepts."""

from __future__ import annotations

import os
import shutil
import textwrap
from argparse import Action, ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from django.core.management.base import BaseCommand, CommandParser, DjangoHelpFormatter

WIDEST, INDENT = 100, 4
# Django gives these options to every command; its own documentation describes them.
DJANGO_OPTIONS = frozenset(
    {"--version", "--verbosity", "--settings", "--pythonpath", "--traceback", "--no-color", "--force-color"}
)


class ManualCommand(BaseCommand):
    """Base class of the commands.

    `exit_codes` and `examples` (the words after the program's name, and what they do) complete the manual page.
    """

    suppressed_base_arguments = {*DJANGO_OPTIONS, "--skip-checks"}
    exit_codes: Mapping[int, str] = {0: "The command succeeded.", 1: "It failed; the reason is printed."}
    examples: Mapping[str, str] = {}

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        kwargs.setdefault("formatter_class", _Formatter)
        kwargs.setdefault("epilog", "\n\n".join(self._sections(os.path.basename(prog_name))))
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        parser.description = _paragraph(self.help)
        return parser

    def _sections(self, program: str) -> Iterator[str]:
        yield "\n".join(["exit codes:", *(f"  {code}  {meaning}" for code, meaning in self.exit_codes.items())])
        if self.examples:
            lines = [f"  {program} {words}\n{_paragraph(text, INDENT + 2)}" for words, text in self.examples.items()]
            yield "\n".join(["examples:", *lines])


class _Formatter(DjangoHelpFormatter, RawDescriptionHelpFormatter):
    """Keeps the lines of descriptions and examples as they are."""


class Actions(Protocol):
    """The actions of a command, as `add_subparsers` returns them."""

    def add_parser(self, name: str, *, help: str, description: str) -> ArgumentParser: ...  # noqa: A002


def add_action(actions: Actions, name: str, text: str) -> ArgumentParser:
    """Add the action `name` of a command; `text` is its line in the command's help and opens its own help."""
    return actions.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:].rstrip('.')}.")


@dataclass(frozen=True)
class Argument:
    """An argument or option, as written on the command line. `value` is a placeholder; empty for a flag."""

    name: str
    value: str
    text: str
    choices: tuple[str, ...] = ()
    is_required: bool = False

    @property
    def is_option(self) -> bool:
        return self.name.startswith("-")


@dataclass(frozen=True)
class Manual:
    """The arguments and actions that a command, or one of its actions, accepts."""

    text: str
    arguments: tuple[Argument, ...] = ()
    actions: Mapping[str, Manual] = field(default_factory=dict)


def manual_of(command: BaseCommand) -> Manual:
    """Return what `command` accepts, without the options that Django gives to every command."""
    parser = _Recorder(add_help=False)
    command.add_arguments(parser)
    return _manual(parser, " ".join(command.help.split()))


class _Recorder(CommandParser):
    """Parser that keeps what was declared: argparse has no public way to list it."""

    def __init__(self, **kwargs: Any) -> None:
        self.declared: list[Action] = []
        self.actions: Mapping[str, Any] = {}
        super().__init__(**kwargs)

    def add_argument(self, *args: Any, **kwargs: Any) -> Action:
        action = super().add_argument(*args, **kwargs)
        self.declared.append(action)
        return action

    def add_subparsers(self, **kwargs: Any) -> Any:
        added = super().add_subparsers(**kwargs)
        self.actions = added.choices
        return added


def _manual(parser: _Recorder, text: str) -> Manual:
    arguments = tuple(_argument(action) for action in parser.declared if action.dest != "help")
    return Manual(text, arguments, {name: _manual(one, one.description or "") for name, one in parser.actions.items()})


def _argument(action: Action) -> Argument:
    choices = tuple(str(choice) for choice in action.choices or ())
    label = action.metavar if isinstance(action.metavar, str) else action.dest
    placeholder = "|".join(choices) or (label.upper() if action.option_strings else label)
    name = max(action.option_strings, key=len) if action.option_strings else label
    return Argument(name, "" if action.nargs == 0 else placeholder, action.help or "", choices, action.required)


def _paragraph(text: str, indent: int = 0) -> str:
    width = min(shutil.get_terminal_size().columns - 2, WIDEST)
    margin = " " * indent
    return textwrap.fill(" ".join(text.split()), width, initial_indent=margin, subsequent_indent=margin)
