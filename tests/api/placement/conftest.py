"""Fixtures of the placement API's clients."""

from tests.fixtures.served_apis import url  # noqa: F401
