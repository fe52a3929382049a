"""`novella completion SHELL`: print the script with which a shell completes commands and options."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from conductor.manual import Manual, ManualCommand
from portal import cli, completion


class Command(ManualCommand):
    help = "Print a script that completes commands, actions and options in your shell. It knows those of this version."
    requires_system_checks = []
    examples = {
        "completion bash >> ~/.bashrc": "Complete in each new bash.",
        "completion zsh > ~/.zfunc/_novella": "Complete in zsh, if the folder is in your fpath.",
        "completion fish > ~/.config/fish/completions/novella.fish": "Complete in fish.",
    }

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("shell", choices=sorted(completion.SHELLS), help="your shell")

    def handle(self, *args: Any, **options: Any) -> None:
        others = {name: Manual(text) for name, text in cli.DJANGO_COMMANDS.items()}
        self.stdout.write(completion.script(options["shell"], {**cli.manuals(), **others}))
