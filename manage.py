#!/usr/bin/env python3
"""The command `novella`, in a checkout: `python manage.py up` starts everything, `python manage.py help` lists all."""

from __future__ import annotations

import sys

from portal.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
