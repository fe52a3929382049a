"""The command line: `novella up` starts everything, `novella --help` lists the commands with a line each."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence

from django.core.management import BaseCommand, ManagementUtility, get_commands, load_command_class

import portal
from conductor.core import garbage
from conductor.manual import Manual, manual_of
from portal.environment import InvalidEnvironment, current
from portal.private_files import protect

EXIT_BAD_ENVIRONMENT = 2
# The project's commands by purpose.
GROUPS: dict[str, Sequence[str]] = {
    "Start Novella": ("up",),
    "Run it as several processes": (
        *("seed", "web", "conductor", "scheduler", "compute"),
        *("hosts", "broker_accounts", "upgrade_check"),
    ),
    "Operate it": ("members", "drain", "reconcile", "prune", "verify_audit"),
    "Scheduling and plugins": ("plugins", "what_if", "simulate_scheduling", "startplugin"),
    "Set up your shell": ("completion",),
}
# Commands of Django that are of use beside them. The help has no others: most are for projects that use Django's admin.
DJANGO_COMMANDS = {
    "check": "Check the settings and models.",
    "dbshell": "Open the client of one database.",
    "makemigrations": "Write the migrations of changed models.",
    "migrate": "Apply the migrations of one database; seed does it for all.",
    "shell": "Open a Python shell with Novella's settings.",
    "showmigrations": "List the migrations of one database.",
}
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
    """Return the help: the project's commands by group with the first sentence of their help, then Django's."""
    commands = get_commands()
    groups = {title: {name: _summary(commands[name], name) for name in names} for title, names in GROUPS.items()}
    lines = [
        f"usage: {program} COMMAND [options]",
        "",
        f"Novella is a compute cloud: '{program} up' starts all of it.",
        "",
    ]
    for title, summaries in {**groups, "Commands of Django": DJANGO_COMMANDS}.items():
        lines += [f"{title}:", *(f"  {name:20} {summary}" for name, summary in summaries.items()), ""]
    lines.append(f"'{program} COMMAND --help' describes one command, '{program} --version' prints the version.")
    return "\n".join(lines)


def manuals() -> dict[str, Manual]:
    """Return the manual of each command of the project, by name."""
    commands = get_commands()
    names = [name for group in GROUPS.values() for name in group]
    return {name: manual_of(load_command_class(commands[name], name)) for name in names}


def _summary(application: str, name: str) -> str:
    found = FIRST_SENTENCE.match(load_command_class(application, name).help)
    return found[0] if found else ""
