"""Clouds for the acceptance tests: a seeded data folder is made once and copied."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import migrated
from tests.acceptance.cloud import Cloud, copy_seeded
from tests.acceptance.nursery import Nursery
from tests.locks import locked

MakeCloud = Callable[..., Cloud]


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


@pytest.fixture(scope="session")
def seeded_data(tmp_path_factory: pytest.TempPathFactory, nursery: Nursery) -> Path:
    """A data folder after one start and a clean end: of whichever of the tests' workers needs it first."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    seed = shared / "seeded"
    with locked(shared / "seeded.lock"):
        if not seed.exists():
            migrated.copy_files(shared / "seeding")  # test_start.py shows a start without them
            cloud = Cloud(shared / "seeding", nursery).start()
            assert cloud.stop() == 0, cloud.log_tail()
            cloud.data_dir.rename(seed)
    return seed


@pytest.fixture
def new_cloud(seeded_data: Path, nursery: Nursery, tmp_path: Path) -> Iterator[MakeCloud]:
    """Makes clouds on copies of the seeded folder; their processes end with the test."""
    made: list[Cloud] = []

    def make(**variables: str) -> Cloud:
        cloud = Cloud(copy_seeded(seeded_data, tmp_path / f"var{len(made)}"), nursery, **variables)
        made.append(cloud)
        return cloud

    yield make
    for cloud in made:
        if cloud.is_alive:
            cloud.kill_9()


@pytest.fixture(scope="module")
def mortals() -> Iterator[list[Cloud]]:
    """Holds the cloud that the tests of a module kill one after the other; empty before the first."""
    kept: list[Cloud] = []
    yield kept
    for cloud in kept:
        cloud.kill_9()


@pytest.fixture
def mortal(
    mortals: list[Cloud], seeded_data: Path, nursery: Nursery, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cloud]:
    """A running cloud without servers that dies at the place set by `arm`.

    Every test must restart it and leave nothing in it: the next test continues with the same one. The cloud of a failed
    test is discarded.
    """
    if not mortals:
        folder = copy_seeded(seeded_data, tmp_path_factory.mktemp("mortal") / "var")
        cloud = Cloud(folder, nursery, NOVELLA_SIMULATED_LATENCY_SECONDS="0.05")
        cloud.variables["NOVELLA_CRASH_AT"] = f"@{cloud.armed_path}"
        mortals.append(cloud.start())
    (cloud,) = mortals
    yield cloud
    if not cloud.is_alive or cloud.armed_path.exists() or cloud.leaked_resources():
        cloud.kill_9()
        mortals.clear()
