"""One cached instance of each serializer: creating the fields for each request would take longer than using them."""

from __future__ import annotations

import functools
from typing import Any, TypeVar

from rest_framework import serializers

Serializer = TypeVar("Serializer", bound=serializers.Serializer[Any])


@functools.cache
def prototype(kind: type[Serializer]) -> Serializer:
    """Return a shared instance without a request, whose fields check and write values."""
    return kind()
