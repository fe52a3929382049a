"""Creates `.venv` and installs the hashed locks, with only the standard library, and only what has changed.

`python3 -m tools.bootstrap run` installs the dependencies of the product, `python3 -m tools.bootstrap test` also those
of the test suite and the linters.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tools import debian
from tools.collect_frontend import VENDOR_DIR

PROJECT_DIR = Path(__file__).resolve().parent.parent
OLDEST_PYTHON = (3, 11)
MINUTES = {"base": "a minute", "dev": "three minutes"}  # of the installation of a lock, with downloads


class CannotSetUp(Exception):
    """The environment cannot be created; one line with the reason."""


@dataclass(frozen=True)
class Layout:
    """Paths in a checkout."""

    project_dir: Path

    @property
    def venv_dir(self) -> Path:
        return self.project_dir / ".venv"

    @property
    def python(self) -> Path:
        return self.venv_dir / "bin" / "python"

    def lock(self, name: str) -> Path:
        return self.project_dir / "requirements" / f"{name}.lock"

    def is_current(self, part: str, *sources: Path) -> bool:
        """Return whether `part` is up to date with the present contents of `sources`."""
        stamp = self._stamp(part)
        return stamp.is_file() and stamp.read_text() == _digest(sources)

    def mark_current(self, part: str, *sources: Path) -> None:
        self._stamp(part).write_text(_digest(sources))

    def forget(self, part: str) -> None:
        self._stamp(part).unlink(missing_ok=True)

    def _stamp(self, part: str) -> Path:
        return self.venv_dir / f".made-{part}"


def set_up(layout: Layout, profile: str) -> None:
    """Bring the environment of `profile` (`run` or `test`) up to date."""
    _make_venv(layout)
    _install_uv(layout)
    _sync(layout, "dev" if profile == "test" else "base")
    _collect_frontend(layout)


def _digest(sources: Sequence[Path]) -> str:
    return hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()


def _report(text: str) -> None:
    print(f"set-up: {text}", flush=True)


def _run(command: Sequence[object], *, what: str, cwd: Path) -> None:
    if subprocess.run([str(word) for word in command], cwd=cwd, check=False).returncode:
        raise CannotSetUp(f"set-up: {what} failed; the lines above say why")


def _make_venv(layout: Layout) -> None:
    if _is_usable(layout.python):
        return
    if find_spec("ensurepip") is None:
        _install_ensurepip()
    _report("creating .venv")
    # --clear: the rest of an environment without its Python is useless.
    command: list[object] = [sys.executable, "-m", "venv", "--clear", layout.venv_dir]
    _run(command, what="making .venv", cwd=layout.project_dir)


def _is_usable(python: Path) -> bool:
    if not python.exists():
        return False
    check = f"import pip, sys; sys.exit(sys.version_info < {OLDEST_PYTHON})"
    return subprocess.run([str(python), "-c", check], capture_output=True, check=False).returncode == 0


def _install_ensurepip() -> None:
    """Install ensurepip: Debian ships Python without it, and a new environment needs it for pip."""
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    try:
        debian.install([package])
    except debian.CannotInstall:
        raise CannotSetUp(f"apt-get install -y {package}") from None


def _install_uv(layout: Layout) -> None:
    lock = layout.lock("bootstrap")
    if layout.is_current("uv", lock):
        return
    pip: list[object] = [layout.python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    _run([*pip, "--require-hashes", "--only-binary", ":all:", "-r", lock], what="installing uv", cwd=layout.project_dir)
    layout.mark_current("uv", lock)


def _sync(layout: Layout, name: str) -> None:
    # Everything in base.lock is in dev.lock too: an environment for tests also runs the product.
    if any(layout.is_current(wider, layout.lock(wider), layout.lock("base")) for wider in {name, "dev"}):
        return
    for part in ("base", "dev"):
        layout.forget(part)
    uv: list[object] = [
        layout.venv_dir / "bin" / "uv",
        "pip",
        "install",  # not `sync`, which would remove plugins and extras that the operator has installed
        *([] if sys.stderr.isatty() else ["--quiet"]),  # a terminal shows the progress
        "--require-hashes",
        "--python",
        layout.python,
        "-r",
    ]
    lock = layout.lock(name)
    count = len(re.findall(r"^\S+==", lock.read_text(), re.MULTILINE))
    path = lock.relative_to(layout.project_dir)
    _report(f"installing the {count} packages of {path} into .venv; this takes about {MINUTES[name]}")
    _run([*uv, lock], what=f"installing {name}.lock", cwd=layout.project_dir)
    layout.mark_current(name, lock, layout.lock("base"))


def _collect_frontend(layout: Layout) -> None:
    sources = (layout.project_dir / "package-lock.json", layout.project_dir / "tools" / "collect_frontend.py")
    vendor_dir = layout.project_dir / VENDOR_DIR.relative_to(PROJECT_DIR)
    if layout.is_current("frontend", *sources) and vendor_dir.is_dir():
        return
    _report("fetching the browser packages of package-lock.json")
    npm: list[object] = [layout.python, "-m", "tools.npm", "ci", "--loglevel=error"]
    _run(npm, what="installing the browser packages", cwd=layout.project_dir)
    collect: list[object] = [layout.python, "-m", "tools.collect_frontend"]
    _run(collect, what="collecting the browser packages", cwd=layout.project_dir)
    layout.mark_current("frontend", *sources)


def main(arguments: Sequence[str]) -> int:
    if sys.version_info < OLDEST_PYTHON:
        found, needed = ".".join(map(str, sys.version_info[:3])), ".".join(map(str, OLDEST_PYTHON))
        print(
            f"Novella needs Python {needed} or newer; this is {found}. Try: make run PY=python{needed}", file=sys.stderr
        )
        return 1
    if list(arguments) not in (["run"], ["test"]):
        print("usage: python3 -m tools.bootstrap run|test", file=sys.stderr)
        return 2
    try:
        set_up(Layout(PROJECT_DIR), arguments[0])
    except CannotSetUp as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
