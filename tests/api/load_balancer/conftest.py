"""Fixtures of the load balancer API's clients."""

from tests.fixtures.served_apis import url  # noqa: F401
