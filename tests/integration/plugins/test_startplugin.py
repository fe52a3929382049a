"""Packages that `manage.py startplugin` writes: their own tests pass at once, and installed they are found and used."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

ROOT = Path(__file__).parents[3]
KINDS = ("filter", "weigher", "driver", "sink")
BUILD = """
import os, sys
from setuptools import build_meta
for folder in sys.argv[2:]:
    if not os.fork():  # setuptools keeps what it read
        os.chdir(folder)
        build_meta.build_wheel(sys.argv[1])
        os._exit(0)
    assert os.wait()[1] == 0, folder
"""
LOOK = """
import json
from conductor.plugins import registry
found = registry()
print(json.dumps({
    one.name: [one.distribution, one.version, one.filters, one.weighers, one.drivers, one.sinks]
    for one in found.plugins if not one.is_shipped
}))
"""


def python(*words: str | Path, paths: tuple[Path, ...] = (), cwd: Path | None = None) -> str:
    """Return the output of a new interpreter without Django's settings."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("DJANGO_SETTINGS_MODULE", "PYTEST_ADDOPTS")
    }
    environment |= {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, *paths))), "PYTHONDONTWRITEBYTECODE": "1"}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # plugin authors have pytest, but not all of our plugins
    done = subprocess.run(
        [sys.executable, *map(str, words)], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One package of each kind, by kind."""
    work = tmp_path_factory.mktemp("started")
    found = {kind: work / f"my-{kind}" for kind in KINDS}
    for kind, folder in found.items():
        call_command("startplugin", kind, f"my_{kind}", str(folder), stdout=StringIO())
    return found


@pytest.fixture(scope="module")
def site(packages: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All four packages, built and unpacked like an installer does it."""
    work = tmp_path_factory.mktemp("installed")
    python("-c", BUILD, work, *packages.values())
    for wheel in work.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(work / "site")
    return work / "site"


def test_their_tests_pass_as_they_were_written(packages: dict[str, Path], site: Path) -> None:
    """Run the tests of one package in its folder before it is installed; then those of all four as installed."""
    quiet = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
    folders = [folder / "tests" for folder in packages.values()]
    alone = python(*quiet, cwd=packages["sink"])  # which has the fewest
    together = python(*quiet, "-c", os.devnull, "--rootdir", site, *folders, paths=(site,))
    for reported, least in ((alone, 4), (together, 80)):
        passed = re.search(r"^(\d+) passed in", reported, re.MULTILINE)
        assert passed, reported
        assert int(passed[1]) >= least


def test_installed_they_are_found_by_their_entry_points(site: Path) -> None:
    found: dict[str, Any] = json.loads(python("-c", LOOK, paths=(site,)).splitlines()[-1])
    assert found == {
        "my_filter": ["my-filter", "0.1.0", ["MyFilter"], [], [], []],
        "my_weigher": ["my-weigher", "0.1.0", [], ["MyWeigher"], [], []],
        "my_driver": ["my-driver", "0.1.0", [], [], ["my_driver"], []],
        "my_sink": ["my-sink", "0.1.0", [], [], [], ["my_sink"]],
    }


def test_no_placeholder_is_left_and_nothing_but_the_package_is_written(packages: dict[str, Path]) -> None:
    for kind, folder in packages.items():
        written = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        source = f"src/my_{kind}"
        expected = {"README.md", "pyproject.toml", f"{source}/__init__.py", f"{source}/plugin.py"}
        assert expected | {f"{source}/{kind}.py", f"tests/test_my_{kind}.py"} <= set(written)
        listed = {"filter": "MyFilter", "weigher": "MyWeigher"}.get(kind, f"my_{kind}")
        assert f"# {listed} is there" in (folder / "README.md").read_text()
        assert not [name for name in written if "app_name" in name or name.endswith("-tpl")]
        assert not [name for name in written if "{{" in (folder / name).read_text(errors="replace")]


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("Near-Racks", "name: Near-Racks is no package name"),
        ("class", "name: class is no package name"),
        ("json", "name: there is a Python package json already"),
    ],
)
def test_an_invalid_package_name_is_refused_and_nothing_is_written(tmp_path: Path, name: str, complaint: str) -> None:
    with pytest.raises(CommandError, match=complaint):
        call_command("startplugin", "filter", name, str(tmp_path / "new"))
    assert list(tmp_path.iterdir()) == []


def test_existing_files_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(CommandError, match="is there already"):
        call_command("startplugin", "filter", "my_filter", str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
