"""Clouds for the acceptance tests: a seeded data folder is made once and copied."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.cloud import Cloud


@pytest.fixture(scope="session")
def seeded_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder after one start and a clean end."""
    cloud = Cloud(tmp_path_factory.mktemp("seed") / "var").start()
    assert cloud.stop() == 0, cloud.log_tail()
    return cloud.data_dir


@pytest.fixture
def new_cloud(seeded_data: Path, tmp_path: Path) -> Iterator[Callable[..., Cloud]]:
    """Makes clouds on copies of the seeded folder; their processes end with the test."""
    made: list[Cloud] = []

    def make(**variables: str) -> Cloud:
        data_dir = tmp_path / f"var{len(made)}"
        shutil.copytree(seeded_data, data_dir, ignore=shutil.ignore_patterns("process.log"))
        cloud = Cloud(data_dir, **variables)
        made.append(cloud)
        return cloud

    yield make
    for cloud in made:
        if cloud.process is not None and cloud.process.poll() is None:
            cloud.kill_9()
