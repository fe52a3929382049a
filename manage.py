#!/usr/bin/env python3
"""The one command of Novella: `python manage.py up` starts everything, `python manage.py help` lists the rest."""

from __future__ import annotations

import os
import sys

from django.core.management import execute_from_command_line

from portal.environment import InvalidEnvironment, current
from portal.private_files import protect

EXIT_BAD_ENVIRONMENT = 2


def main(arguments: list[str]) -> int:
    """Run one management command; a wrong environment variable or data folder costs one line and exit code 2."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    try:
        protect(current())
    except InvalidEnvironment as error:
        print(error, file=sys.stderr)
        return EXIT_BAD_ENVIRONMENT
    execute_from_command_line(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
