"""Import contracts of pyproject.toml: they hold, and each one detects a planted violation."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.architecture.tree import PACKAGES, PROJECT_DIR, own_files, parsed, read

LINT = "from importlinter.cli import lint_imports_command as lint; lint()"
CONTRACTS = {
    contract["id"]: contract["name"]
    for contract in tomllib.loads(read("pyproject.toml"))["tool"]["importlinter"]["contracts"]
}


TEST_MODULE = re.compile(r"tests\.(\w+\.)*test_\w+")


def test_no_module_of_tests_is_imported_by_another() -> None:
    """A module of tests is run, and not imported: what others need of it is in `tests/fixtures/`."""
    imported = {
        f"{path}: {node.module}"
        for path in own_files(".py")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom) and TEST_MODULE.fullmatch(node.module or "")
    }
    assert not imported, "move what is shared to tests/fixtures/"


@dataclass(frozen=True)
class Planted:
    """A new file with a forbidden import, and the contract that must report it."""

    path: str
    line: str
    contract: str


PLANTED = (
    Planted("conductor/core/planted.py", "import conductor.services.servers.instances", "layers"),
    Planted("conductor/api_db/planted.py", "import conductor.cell_db.models", "layers"),
    Planted("conductor/services/planted.py", "import conductor.workflows.engine.executor", "layers"),
    Planted("conductor/attic/__init__.py", "", "layers"),
    Planted("conductor/services/hosts/planted.py", "import conductor.services.fleet.drains", "floors"),
    Planted("conductor/services/planted.py", "", "floors"),
    Planted("conductor/services/planted.py", "import portal.settings", "portal-above"),
    Planted("portal/pages/planted.py", "import conductor.workflows.engine.executor", "services-boundary"),
    Planted("portal/pages/planted.py", "import conductor.cell_db.models", "services-boundary"),
    Planted("portal/pages/planted.py", "import portal.api.network.views.collections", "pages-boundary"),
    Planted("portal/pages/planted.py", "import portal.api.novella.quotas", "pages-boundary"),
    Planted("portal/api/compute/planted.py", "import conductor.identity.models", "identity-boundary"),
    Planted("portal/pages/planted.py", "import conductor.image.models", "image-boundary"),
    Planted("portal/api/compute/planted.py", "import conductor.network.models", "network-boundary"),
    Planted("portal/api/compute/planted.py", "import conductor.volume.models", "volume-boundary"),
    Planted("portal/api/compute/planted.py", "import conductor.placement.models", "placement-boundary"),
    Planted("portal/api/compute/planted.py", "import conductor.events", "events-boundary"),
    Planted("portal/api/compute/planted.py", "import portal.api.image", "apis-apart"),
    Planted("conductor/core/planted.py", "import django", "plain-core"),
    Planted("scheduler_plugins/filters/planted.py", "import conductor.db.transactions", "plugins-see"),
    Planted("compute_drivers/fake/planted.py", "import django", "plugins-see"),
    Planted("conductor/services/planted.py", "import compute_drivers.fake.driver", "by-name"),
    Planted("scheduler_plugins/filters/planted.py", "import scheduler_plugins.filters.same_host", "own-feet-filters"),
    Planted("scheduler_plugins/weighers/planted.py", "import scheduler_plugins.weighers.ram", "own-feet-weighers"),
    Planted("compute_drivers/libvirt/planted.py", "import compute_drivers.fake.driver", "own-feet-drivers"),
    Planted("conductor/compute/planted.py", "import conductor.rpc.outbox", "no-database"),
    Planted("conductor/compute/planted.py", "import conductor.db.transactions", "no-database"),
    Planted("conductor/services/planted.py", "import conductor.compute.agent", "by-message"),
    Planted("conductor/scheduler/planted.py", "import conductor.rpc.outbox", "scheduler-decides"),
    Planted("conductor/services/planted.py", "import conductor.workflows.scheduler_calls", "scheduler-calls"),
    Planted("conductor/core/planted.py", "import conductor.services.servers.instances", "no-cycles"),
)


def lint(project_dir: Path, *contracts: str) -> tuple[int, str]:
    """Exit code and report of import-linter on the packages in `project_dir`; all contracts when none is named."""
    chosen = [word for contract in contracts for word in ("--contract", contract)]
    ended = subprocess.run(
        [sys.executable, "-c", LINT, "--no-logo", "--no-cache", *chosen],
        cwd=project_dir,
        capture_output=True,
        text=True,
        check=False,
        env={"COLUMNS": "200", "PATH": ""},
    )
    return ended.returncode, ended.stdout + ended.stderr


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages and their contracts, to be spoilt."""
    project_dir = tmp_path_factory.mktemp("project")
    shutil.copy(PROJECT_DIR / "pyproject.toml", project_dir)
    for package in PACKAGES:
        shutil.copytree(
            PROJECT_DIR / package, project_dir / package, ignore=shutil.ignore_patterns("static", "__pycache__")
        )
    return project_dir


def test_every_contract_is_kept() -> None:
    code, report = lint(PROJECT_DIR)
    assert code == 0, report


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: f"{planted.contract}: {planted.path}")
def test_a_planted_violation_is_caught(copy: Path, planted: Planted) -> None:
    path = copy / planted.path
    is_new_folder = not path.parent.exists()
    path.parent.mkdir(exist_ok=True)
    try:
        path.write_text(planted.line + "\n")
        code, report = lint(copy, planted.contract)
    finally:
        if is_new_folder:
            shutil.rmtree(path.parent)
        else:
            path.unlink()
    assert code == 1
    assert f"{CONTRACTS[planted.contract]} BROKEN" in report


def test_every_contract_has_a_planted_violation() -> None:
    assert {planted.contract for planted in PLANTED} == set(CONTRACTS)


def test_code_of_hosts_imports_no_database() -> None:
    imported = {
        f"{path}: {name}"
        for path in own_files(".py")
        if path.parts[:2] == ("conductor", "compute")
        for name in _imported(path)
        if name.startswith("django.db")
    }
    assert imported == set()


def _imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names
