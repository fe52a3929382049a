"""Faults in placement's format: with a code from 1.23 on, and with the version range where none was usable.

Functions of placement set the code in an error's details, `Conflict("…", code="placement.inventory.inuse")`; an error
without one has `placement.undefined_code`.
"""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError
from rest_framework.exceptions import MethodNotAllowed, NotAcceptable, UnsupportedMediaType
from rest_framework.response import Response

from conductor.core.errors import ConcurrentUpdate
from portal.api.errors import UnsupportedVersion, exception_handler
from portal.api.placement.microversions import VERSIONS

UNDEFINED = "placement.undefined_code"
CONCURRENT_UPDATE = "placement.concurrent_update"
DUPLICATE_KEY = "placement.query.duplicate_key"
BAD_VALUE = "placement.query.bad_value"
MISSING_VALUE = "placement.query.missing_value"
PROVIDER_NOT_FOUND = "placement.resource_provider.not_found"


def code_of(error: Exception) -> str:
    """Return the code by which clients distinguish errors of one status."""
    named = getattr(error, "details", {}).get("code")
    if named:
        return str(named)
    if isinstance(error, ConcurrentUpdate | IntegrityError):
        return CONCURRENT_UPDATE
    return UNDEFINED


def handle(error: Exception, context: dict[str, Any]) -> Response:
    """Handle every error of placement's views: the general response, with placement's own members."""
    response = exception_handler(error, context)
    view = context["view"]
    (fault,) = response.data["errors"]
    version = getattr(view.request, "microversion", None)
    if version is not None and version.covers("1.23"):
        fault["code"] = code_of(error)
    if isinstance(error, UnsupportedVersion):
        fault |= {"min_version": str(VERSIONS.minimum), "max_version": str(VERSIONS.maximum)}
    if isinstance(error, MethodNotAllowed):
        fault["detail"] = f"The method {view.request.method} is not allowed for this resource."
    if isinstance(error, NotAcceptable):
        fault["detail"] = "Only application/json is provided."
    if isinstance(error, UnsupportedMediaType):
        sent = view.request.content_type or None
        fault["detail"] = f"The media type {sent} is not supported, use application/json."
    return response
