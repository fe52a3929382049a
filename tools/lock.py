"""Resolves the requirements and the browser packages anew; the locks hold hashes and name no host."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROJECT_DIR = Path(__file__).resolve().parent.parent
UV = PROJECT_DIR / ".venv" / "bin" / "uv"
NAMES = ("bootstrap", "base", "redfish", "nova-adapter", "dev")
OPTIONS = ("--universal", "--python-version", "3.11", "--generate-hashes", "--no-emit-index-url", "--no-header")


def main() -> int:
    for name in NAMES:
        files = (f"requirements/{name}.in", "-o", f"requirements/{name}.lock")
        subprocess.run([UV, "pip", "compile", "--quiet", "--upgrade", *OPTIONS, *files], cwd=PROJECT_DIR, check=True)
    npm = [sys.executable, "-m", "tools.npm", "install", "--package-lock-only", "--loglevel=error"]
    subprocess.run(npm, cwd=PROJECT_DIR, check=True)
    print("locked; read the difference before you commit it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
