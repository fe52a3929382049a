"""Copies the browser files that the portal serves out of `node_modules` into `portal/static/vendor`."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

PROJECT_DIR = Path(__file__).resolve().parent.parent
NODE_MODULES = PROJECT_DIR / "node_modules"
VENDOR_DIR = PROJECT_DIR / "portal" / "static" / "vendor"
# Package → the files that pages use; each is copied to vendor/<last part of the name>-<version>/. A name that ends with
# a slash is a folder, whose files refer to each other by relative paths.
PICKED: Mapping[str, Sequence[str]] = {
    "@novnc/novnc": ("core/", "vendor/", "LICENSE.txt"),
    "@xterm/addon-fit": ("lib/addon-fit.mjs", "LICENSE"),
    "@xterm/xterm": ("lib/xterm.mjs", "css/xterm.css", "LICENSE"),
}
SOURCE_MAP = re.compile(rb"\s*(?://[#@] sourceMappingURL=\S+|/\*[#@] sourceMappingURL=[^*]*\*/)\s*")


def collect(node_modules: Path, vendor_dir: Path, picked: Mapping[str, Sequence[str]] = PICKED) -> list[Path]:
    """Replace `vendor_dir` by the picked files and return their paths in it.

    Raises FileNotFoundError, and leaves `vendor_dir` unchanged, when a picked file is missing.
    """
    vendor_dir.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".vendor-", dir=vendor_dir.parent))
    try:
        copied = [
            _copy(path, draft / _folder(node_modules, package) / place)
            for package, names in picked.items()
            for name in names
            for path, place in _files(node_modules / package, name)
        ]
        draft.chmod(0o755)
        shutil.rmtree(vendor_dir, ignore_errors=True)
        draft.rename(vendor_dir)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return [vendor_dir / path.relative_to(draft) for path in copied]


def _folder(node_modules: Path, package: str) -> str:
    version = json.loads((node_modules / package / "package.json").read_text())["version"]
    return f"{package.rsplit('/', 1)[-1]}-{version}"


def _files(package_dir: Path, name: str) -> list[tuple[Path, Path]]:
    """Return the files of a picked name, each with its path in the folder.

    Raises FileNotFoundError for a missing folder.
    """
    path = package_dir / name
    if not name.endswith("/"):
        return [(path, Path(path.name))]
    if not path.is_dir():
        raise FileNotFoundError(2, "no such folder", str(path))
    return [(file, file.relative_to(package_dir)) for file in sorted(path.rglob("*")) if file.is_file()]


def _copy(path: Path, target: Path) -> Path:
    """Copy a file without its reference to a source map: none is served, and the manifest storage would require it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(SOURCE_MAP.sub(b"\n", path.read_bytes()))
    return target


def main() -> int:
    try:
        copied = collect(NODE_MODULES, VENDOR_DIR)
    except FileNotFoundError as error:
        print(f"front end: {error.filename} is missing; `npm ci` brings it", file=sys.stderr)
        return 1
    print(f"front end: {len(copied)} files in {VENDOR_DIR.relative_to(PROJECT_DIR)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
