"""Forbidden contents of the tree: download hosts, unpinned packages, traces of one machine, unfinished marks."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from tests.architecture.tree import PACKAGES, PROJECT_DIR, own_files, read

LOCKS = (
    "requirements/bootstrap.lock",
    "requirements/base.lock",
    "requirements/nova-adapter.lock",
    "requirements/dev.lock",
)
CONFIGURATION = (
    *LOCKS,
    "requirements/bootstrap.in",
    ".npmrc",
    "package.json",
    "package-lock.json",
    "pyproject.toml",
    "Makefile",
    ".ci/run",
    ".pre-commit-config.yaml",
)
PIN = re.compile(r"^([a-z0-9][a-z0-9._-]*)==(\S+)", re.MULTILINE)
TEXTS = (".py", ".md", ".html", ".css", ".js", ".toml", ".json", ".in", ".lock", ".yaml", "Makefile", "run")
# Built from parts, so that this file is no finding of its own.
MACHINE_PATH = re.compile(r"(?<![\w.~:-])/(?:home|root|Users|work|mnt)/\w")
UNFINISHED = re.compile(r"\b(?:" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")) + r")\b")
SKIPPED = re.compile(r"pytest\.(?:mark\.)?(?:sk" + r"ip|xf" + r"ail)|importor" + "skip")
SWALLOWED = re.compile(r"except(?: Exception| BaseException)?:\s*pass")


def pins(lock: str) -> list[tuple[str, str]]:
    """Return name and version of each package; one may be there once per platform."""
    return PIN.findall(read(lock))


def findings(pattern: re.Pattern[str], *suffixes: str) -> list[str]:
    return [
        f"{path}: {found.group()}" for path in own_files(*suffixes) for found in [pattern.search(read(path))] if found
    ]


@pytest.mark.parametrize("path", CONFIGURATION)
def test_no_file_names_a_host_to_download_from(path: str) -> None:
    assert re.findall(r"\w+://[^\s\"']+|index-url|find-links|registry\s*=", read(path)) == []


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_package_is_hashed(lock: str) -> None:
    entries = [entry for entry in re.split(r"\n(?=[a-z0-9])", read(lock)) if PIN.match(entry)]
    assert len(entries) == len(pins(lock)) > 0
    assert [PIN.match(entry)[0] for entry in entries if "--hash=sha256:" not in entry] == []  # type: ignore[index]


def test_the_test_environment_runs_the_product_as_locked() -> None:
    assert set(pins("requirements/base.lock")) - set(pins("requirements/dev.lock")) == set()


def test_the_package_includes_the_files_that_it_reads_outside_of_its_folders() -> None:
    targets = tomllib.loads(read("pyproject.toml"))["tool"]["hatch"]["build"]["targets"]
    included = targets["wheel"]["force-include"]
    assert [path for path in included if not (PROJECT_DIR / path).exists()] == []
    assert included == {"templates": "portal/templates"}
    assert {f"/{path}" for path in included} <= set(targets["sdist"]["include"])


def test_types_are_strict_everywhere_and_users_of_the_package_see_them() -> None:
    mypy = tomllib.loads(read("pyproject.toml"))["tool"]["mypy"]
    assert mypy["strict"]
    assert mypy["exclude"] == ["/migrations/"]
    looser = {
        name
        for part in mypy["overrides"]
        if part.keys() != {"module", "ignore_missing_imports"}
        for name in part["module"]
    }
    assert looser == {"conductor.rpc.redis_broker"}, "each exception has a reason in pyproject.toml"
    assert [package for package in PACKAGES if not (PROJECT_DIR / package / "py.typed").exists()] == []


def test_browser_packages_are_exact_and_whole() -> None:
    wanted = json.loads(read("package.json"))["dependencies"]
    locked = json.loads(read("package-lock.json"))["packages"]
    assert [name for name, version in wanted.items() if not re.fullmatch(r"\d+\.\d+\.\d+", version)] == []
    assert locked.pop("")["dependencies"] == wanted
    assert {name: package.keys() & {"resolved", "integrity"} for name, package in locked.items()} == {
        name: {"integrity"} for name in locked
    }


def test_no_path_of_one_machine() -> None:
    assert findings(MACHINE_PATH, *TEXTS) == []


def test_nothing_is_marked_unfinished() -> None:
    assert findings(UNFINISHED, ".py", ".html", ".css", ".js", ".md") == []


def test_no_test_is_passed_over() -> None:
    assert findings(SKIPPED, ".py") == []


def test_no_error_is_swallowed() -> None:
    assert findings(SWALLOWED, ".py") == []


def test_only_one_module_of_the_product_reads_the_environment() -> None:
    reading = re.compile(r"os\.(?:environ(?!\.setdefault)|getenv)|from os import.*\b(?:environ|getenv)")
    product = {"portal", "conductor", "scheduler_plugins", "compute_drivers"}
    readers = {path for path in own_files(".py") if path.parts[0] in product and reading.search(read(path))}
    assert readers == {Path("portal/environment.py")}


def test_images_are_looked_up_as_a_project_sees_them() -> None:
    """Tenants write ids of images: a query of the table itself would find images of other projects."""
    found = findings(re.compile(r"\bImage\.(?:objects|_default_manager)\b"), ".py")
    own = (
        "conductor/image/",
        "tests/",
        "conductor/services/fleet/canaries.py",
    )  # the last looks for public ones by itself
    assert [finding for finding in found if not finding.startswith(own)] == []
