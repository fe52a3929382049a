"""No dependency is locked below a version that fixed a known weakness."""

from __future__ import annotations

import json
from pathlib import Path

from tools import audit


def test_the_locks_are_above_every_bound() -> None:
    assert audit.findings(audit.PROJECT_DIR) == []


def test_a_version_below_its_bound_and_a_row_without_a_package_are_found(tmp_path: Path) -> None:
    bound = '{ least = "2.10", advisories = ["CVE-1"], reason = "reads too far" }'
    folder = tmp_path / "requirements"
    folder.mkdir()
    (folder / "advisories.toml").write_text(f"[python]\nold = {bound}\ngone = {bound}\n[npm]\n'@a/b' = {bound}\n")
    (folder / "base.lock").write_text("old==2.9 \\\n    --hash=sha256:00\nfine==1.0\n")
    (folder / "dev.lock").write_text("old==2.10 ; python_version < '4'\n")
    packages = {"": {"name": "x"}, "node_modules/@a/b": {"version": "2.9.9"}}
    (tmp_path / "package-lock.json").write_text(json.dumps({"packages": packages}))
    assert audit.findings(tmp_path) == [
        "requirements/base.lock: old 2.9 is below 2.10 (CVE-1: reads too far)",
        "requirements/advisories.toml: no lock has gone; remove the row",
        "package-lock.json: @a/b 2.9.9 is below 2.10 (CVE-1: reads too far)",
    ]
