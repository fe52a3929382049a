"""Shared fixtures of all tests: kinds of tests by folder, real databases, users, and clients of the APIs.

    def test_names_are_unique(people, api_client):
        answer = api_client("ana").post("/compute/v2.1/servers", {…})
        assert answer.status_code == 202

`databases` gives all of them (API and cells), as files, and empties them afterwards; commits are real, so threads see
each other's rows. `people` and `api_client` include it.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from conductor.core import garbage

pytest.register_assert_rewrite("tests.fixtures")  # so that their failures show values, too
pytest_plugins = ["tests.chromium", "tests.services.fixtures"]  # for tests that request them
TESTS_DIR = Path(__file__).parent
ENDED_WELL = pytest.StashKey[bool]()
ApiClientFactory = Callable[..., Any]


def pytest_configure() -> None:
    """Use a temporary root of this run's own: another run that starts would close the shared one to PostgreSQL.

    The time of a generated case depends on the machine, not on the tested code. Generated cases are the same in each
    run, so that a commit has one verdict; with TEST_RANDOM=1 they are new ones.
    """
    is_random = bool(os.environ.get("TEST_RANDOM"))
    settings.register_profile(
        "novella", deadline=None, derandomize=not is_random, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("novella")
    if not is_random:
        # Hypothesis draws from the constants of all modules that are loaded. These are others in each process, and
        # to find them costs each process as much as hundreds of tests.
        providers.is_local_module_file = lambda path: False
    garbage.rest()
    os.environ["PYTEST_DEBUG_TEMPROOT"] = tempfile.mkdtemp(prefix="nv-")  # short: paths of sockets are below it


def pytest_unconfigure(config: pytest.Config) -> None:
    if config.stash.get(ENDED_WELL, False):
        shutil.rmtree(os.environ["PYTEST_DEBUG_TEMPROOT"], ignore_errors=True)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    session.config.stash[ENDED_WELL] = exitstatus == 0  # what failed is left to be looked at


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with the folder below `tests` that it is in, which is its kind."""
    for item in items:
        item.add_marker(item.path.relative_to(TESTS_DIR).parts[0])


def pytest_collection_finish() -> None:
    """Collect garbage as the product's processes do: all tests stay, and to scan them costs as much as many tests."""
    garbage.settle()
    garbage.resume()


@pytest.fixture(scope="session")
def django_db_setup(django_test_environment: None) -> Iterator[None]:
    """Every database for tests that need one, in this run's own folder or server, which is disposable."""
    from django.conf import settings
    from django.test import TransactionTestCase

    from tests import migrated
    from tests.databases import empty_all

    if "sqlite3" in settings.DATABASES["default"]["ENGINE"]:
        migrated.copy_files(settings.NOVELLA_DATA)
    with pytest.MonkeyPatch.context() as patch:
        # After each test with the mark `django_db(transaction=True)`: Django's own way takes fifteen times as long.
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda _: empty_all())
        yield


@pytest.fixture(scope="session", autouse=True)
def conductor_key() -> None:
    """The conductors' key of this run is known from the start: no test counts the statements that look for one."""
    from conductor.rpc import key_store
    from tests import keys

    key_store.LOOK_SECONDS = math.inf
    keys.install()


@pytest.fixture
def databases(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Every database, empty before and after each test."""
    from conductor.cells import quarantine
    from conductor.rpc import backports
    from conductor.scheduler.plugin_health import plugin_watch
    from conductor.services.workflows import duration_statistics
    from tests import keys
    from tests.databases import empty_all

    keys.install()
    backports.forget()  # what the hosts of another test spoke
    duration_statistics.forget()
    quarantine.forget()
    plugin_watch.forget()
    with django_db_blocker.unblock():
        yield
        empty_all()


@pytest.fixture
def people(databases: None) -> Any:
    """ana and bo (member in shop), rea (reader in shop), chi (member in lab), admin: see tests/people.py."""
    from tests.people import create_people

    return create_people()


@pytest.fixture
def api_client(people: Any) -> ApiClientFactory:
    """`api_client("ana", version="2.90")` has ana's token; `api_client(None)` has none."""
    from tests.api_client import ApiClient

    def make(name: str | None = None, *, version: str | None = None) -> ApiClient:
        return ApiClient(people[name].token() if name else None, version=version)

    return make
