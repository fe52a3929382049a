"""Absolute links as the client reached us: host and scheme of the request."""

from __future__ import annotations

from django.http import HttpRequest
from rest_framework.request import Request


def base_url(request: Request | HttpRequest) -> str:
    """`http://host:port`, without a slash at the end."""
    return f"{request.scheme}://{request.get_host()}"


def absolute(request: Request | HttpRequest, path: str) -> str:
    """An absolute link to a path that begins with a slash."""
    return base_url(request) + path
