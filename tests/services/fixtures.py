"""Services as fixtures: one of each for a whole run of tests, started when the first test asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.services import rabbitmq, redis


@pytest.fixture(scope="session")
def redis_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[redis.Service]:
    """A test that kills it starts it again."""
    service = redis.start(tmp_path_factory.mktemp("redis"))
    yield service
    service.stop()


@pytest.fixture(scope="session")
def rabbitmq_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[rabbitmq.Service]:
    """A test that kills it starts it again."""
    service = rabbitmq.start(tmp_path_factory.mktemp("rabbitmq"))
    yield service
    service.stop()
