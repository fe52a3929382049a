"""Selection of the tests that a change can break."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.changed_tests import broken_by, changed_paths

FILES = {
    "conductor/__init__.py": "",
    "conductor/low.py": "X = 1\n",
    "conductor/middle.py": "def f():\n    from conductor import low\n    return low.X\n",
    "conductor/other.py": "import json\n",
    "portal/api/compute/views.py": "",
    "tests/unit/test_low.py": "from conductor.low import X\n",
    "tests/unit/test_middle.py": "import conductor.middle\n",
    "tests/unit/test_other.py": "from conductor import other\n",
    "tests/api/compute/test_servers.py": "",
    "tests/architecture/test_low.py": "import conductor.low\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (["conductor/low.py"], ["tests/unit/test_low.py", "tests/unit/test_middle.py"]),
        (["conductor/middle.py"], ["tests/unit/test_middle.py"]),
        (["conductor/other.py", "README.md"], ["tests/unit/test_other.py"]),
        (["portal/api/compute/views.py"], ["tests/api/compute/test_servers.py"]),
        (["tests/unit/test_low.py"], ["tests/unit/test_low.py"]),
        (["tests/unit/test_gone.py"], []),
        (["README.md"], []),
    ],
)
def test_a_change_breaks_what_imports_it(project: Path, changed: list[str], expected: list[str]) -> None:
    assert broken_by(project, changed) == expected


def test_changes_are_those_since_the_branch_began(project: Path) -> None:
    def git(*words: str) -> None:
        identity = ("-c", "user.name=ana", "-c", "user.email=ana@shop.example")
        subprocess.run(["git", *identity, *words], cwd=project, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-q", "-m", "Begin")
    git("checkout", "-q", "-b", "work")
    (project / "conductor/low.py").write_text("X = 2\n")
    git("commit", "-q", "-a", "-m", "Change low")
    (project / "conductor/other.py").write_text("import re\n")
    (project / "conductor/new.py").write_text("")
    git("checkout", "-q", "main", "--", "conductor/__init__.py")
    assert changed_paths(project, "main") == ["conductor/low.py", "conductor/new.py", "conductor/other.py"]
    with pytest.raises(subprocess.CalledProcessError):
        changed_paths(project, "no-branch")
