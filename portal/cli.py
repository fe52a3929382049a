"""The command line: `novella up` starts everything, `novella --help` lists the commands with a line each."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Iterable, Sequence

from django.core.management import BaseCommand, ManagementUtility, get_commands, load_command_class

import portal
from conductor.core import garbage
from portal.environment import InvalidEnvironment, current
from portal.places import IS_CHECKOUT
from portal.private_files import protect

EXIT_BAD_ENVIRONMENT = 2
# The project's commands by purpose; commands of Django and of libraries follow without a description.
GROUPS: dict[str, Sequence[str]] = {
    "Start Novella": ("up",),
    "Run it as several processes": ("seed", "web", "conductor", "compute", "hosts", "broker_accounts", "upgrade_check"),
    "Operate it": ("members", "drain", "reconcile", "prune", "verify_audit"),
    "Scheduling and plugins": ("plugins", "what_if", "simulate_scheduling", "startplugin"),
}
if IS_CHECKOUT:
    GROUPS["Develop Novella"] = ("draw_flows", "draw_routes")
VERSION = ("version", "--version")
FIRST_SENTENCE = re.compile(r"[^.]+\.")


def run() -> int:
    """Run the command line of this process: the console script `novella`."""
    return main(sys.argv)


def main(arguments: list[str]) -> int:
    """Run one command and return its exit code; a bad environment variable or data folder is one line and code 2."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    try:
        protect(current())
    except InvalidEnvironment as error:
        print(error, file=sys.stderr)
        return EXIT_BAD_ENVIRONMENT
    if len(arguments) == 2 and arguments[1] in VERSION:
        print(f"novella {portal.__version__}")
        return 0
    garbage.rest()
    try:
        _CommandLine(arguments).execute()
    finally:
        garbage.resume()
    return 0


class _CommandLine(ManagementUtility):
    """Django's command line with a help text of our own."""

    def fetch_command(self, subcommand: str) -> BaseCommand:
        command = super().fetch_command(subcommand)
        garbage.resume()
        return command

    def main_help_text(self, commands_only: bool = False) -> str:
        return super().main_help_text(commands_only=True) if commands_only else help_text(self.prog_name)


def help_text(program: str) -> str:
    """The commands of the project in their groups, each with the first sentence of its help, then all others."""
    commands = get_commands()
    own = {name for names in GROUPS.values() for name in names}
    lines = [f"usage: {program} COMMAND [options]", ""]
    for title, names in GROUPS.items():
        lines += [f"{title}:", *(f"  {name:20} {_summary(commands[name], name)}" for name in names), ""]
    lines += ["Commands of Django and its libraries:", *_wrapped(sorted(commands.keys() - own)), ""]
    return "\n".join([*lines, f"'{program} COMMAND --help' describes one command."])


def _summary(application: str, name: str) -> str:
    found = FIRST_SENTENCE.match(load_command_class(application, name).help)
    return found[0] if found else ""


def _wrapped(names: Iterable[str]) -> list[str]:
    return textwrap.wrap(", ".join(names), width=98, initial_indent="  ", subsequent_indent="  ")
