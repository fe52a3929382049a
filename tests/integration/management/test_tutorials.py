"""The tutorials, as a newcomer follows them: every command is run, and every file is written as the page has it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from pytest_django import Settings

from conductor.plugins import check_plugins, registry

ROOT = Path(__file__).parents[3]
OTHERS = ("index", "first-server")  # pages that build no package
PAGES = {path.stem: path for path in sorted((ROOT / "docs" / "tutorials").glob("*.md")) if path.stem not in OTHERS}
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PLACE = re.compile(r"# ((?:src|tests)/\S+?\.py|settings)(?:: (at the end|instead of ([\w.]+)))?\n")
PYTEST, INSTALL, PLUGINS = "python -m pytest", "python -m pip install .", "manage.py plugins "


class Follower:
    """Follows pages in one folder. Tests that are to pass wait for the end of all pages, to be run together."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.folders: list[Path] = []
        self.installed: list[Path] = []
        self.afterwards: list[list[str]] = []  # commands that need what was installed
        self.settings: list[str] = []

    def follow(self, page: Path) -> None:
        for kind, text in BLOCK.findall(page.read_text()):
            if kind == "python":
                self.write(text)
            else:
                for line in text.splitlines():
                    self.run(line)

    def run(self, line: str) -> None:
        folder = self.folders[-1] if self.folders else self.work
        if line.startswith("manage.py startplugin "):
            _, command, kind, name = line.split()
            self.folders.append(self.work / name)
            call_command(command, kind, name, str(self.folders[-1]), stdout=StringIO())
        elif line.startswith("cd "):
            assert line == f"cd {folder.name}"
        elif line == f"! {PYTEST}":
            assert judged(folder).returncode == 1
        elif line == INSTALL:
            self.installed.append(folder)
        elif line.startswith(PLUGINS):
            self.afterwards.append(shlex.split(line.removeprefix("manage.py ")))
        else:
            assert line == PYTEST, f"a page has a command that is not run here: {line}"

    def write(self, text: str) -> None:
        found = PLACE.match(text)
        assert found, f"a page has code without a place: {text[:80]}"
        place, how, instead = found.groups()
        body = text[found.end() :]
        if place == "settings":
            self.settings.append(body)
            return
        path = self.folders[-1] / place
        if how == "at the end":
            body = f"{path.read_text()}\n{body}"
        elif how:
            body, count = re.subn(
                rf"^ *(?:from )?{re.escape(instead)} .*\n", lambda _: body, path.read_text(), flags=re.MULTILINE
            )
            assert count == 1
        path.write_text(body)


def judged(*folders: Path) -> subprocess.CompletedProcess[str]:
    """Return pytest's result for packages, without any other code of ours."""
    paths = [ROOT, *(folder / "src" for folder in folders)]
    words = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", folders[0].parent]
    environment = {
        name: value for name, value in os.environ.items() if name not in ("DJANGO_SETTINGS_MODULE", "PYTEST_ADDOPTS")
    }
    environment |= {"PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    tests = [folder / "tests" for folder in folders]
    return subprocess.run(
        [sys.executable, *map(str, (*words, *tests))], env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def follower(tmp_path_factory: pytest.TempPathFactory) -> Follower:
    made = Follower(tmp_path_factory.mktemp("tutorials"))
    for page in PAGES.values():
        made.follow(page)
    return made


@pytest.fixture
def installed(follower: Follower, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All packages, as if installed by pip: the entry points name `plugin` of each package."""
    for folder in follower.installed:
        monkeypatch.syspath_prepend(str(folder / "src"))
        assert f'{folder.name} = "{folder.name}.plugin"' in (folder / "pyproject.toml").read_text()
    settings.NOVELLA_PLUGINS = (*settings.NOVELLA_PLUGINS, *(f"{one.name}.plugin" for one in follower.installed))
    registry.cache_clear()
    yield
    registry.cache_clear()


def test_there_is_one_for_each_kind_and_the_index_names_them() -> None:
    assert sorted(PAGES) == ["driver", "filter", "sink", "weigher"]
    index = (ROOT / "docs" / "tutorials" / "index.md").read_text()
    assert [name for name in PAGES if f"]({name}.md)" not in index] == []


def test_packages_of_the_tutorials_pass_their_tests(follower: Follower) -> None:
    assert [folder.name for folder in follower.folders] == ["folder_cloud", "near_racks", "event_file", "quiet_hosts"]
    done = judged(*follower.folders)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"^(\d+) passed", done.stdout, re.MULTILINE)
    assert passed
    assert int(passed[1]) >= 80


@pytest.mark.usefixtures("databases", "installed")
def test_installed_packages_are_found_and_can_be_selected(follower: Follower, settings: Settings) -> None:
    assert len(follower.afterwards) >= 7
    for words in follower.afterwards:
        reported = StringIO()
        call_command(*words, stdout=reported)
        if words[-1] == "list":
            names = ("NearRacksFilter", "QuietHostsWeigher", "folder_cloud", "event_file")
            assert [name for name in names if name not in reported.getvalue()] == []
    for text in follower.settings:
        named: dict[str, object] = {}
        exec(text, named)
        settings.NOVELLA_NOTIFICATION_SINKS = named["NOVELLA_NOTIFICATION_SINKS"]
    assert [one.msg for one in check_plugins()] == []
