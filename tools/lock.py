"""Resolves the dependencies of pyproject.toml and package.json into locks, which hold hashes and name no host."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

PROJECT_DIR = Path(__file__).resolve().parent.parent
UV = PROJECT_DIR / ".venv" / "bin" / "uv"
# What each lock is resolved from: `base` is for `make run`, `dev` for the tests.
LOCKS: Mapping[str, Sequence[str]] = {
    "bootstrap": ("requirements/bootstrap.in",),
    "base": ("pyproject.toml", "--extra", "services", "--group", "run"),
    "nova-adapter": ("pyproject.toml", "--extra", "nova-adapter"),
    "dev": ("pyproject.toml", "--extra", "services", "--extra", "redfish", "--group", "dev"),
}
OPTIONS = ("--universal", "--python-version", "3.11", "--generate-hashes", "--no-emit-index-url", "--no-header")


def main() -> int:
    for name, sources in LOCKS.items():
        words = (*OPTIONS, *sources, "-o", f"requirements/{name}.lock")
        subprocess.run([UV, "pip", "compile", "--quiet", "--upgrade", *words], cwd=PROJECT_DIR, check=True)
    npm = [sys.executable, "-m", "tools.npm", "install", "--package-lock-only", "--loglevel=error"]
    subprocess.run(npm, cwd=PROJECT_DIR, check=True)
    print("locked; read the difference before you commit it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
