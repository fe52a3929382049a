"""/healthz shows that the process lives; /readyz shows that it can serve, or names what is missing."""

from __future__ import annotations

from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from conductor.services.operations import readiness


@never_cache
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """Liveness: touches nothing, so that a slow database never gets the process killed."""
    return JsonResponse({"status": "ok"})


@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Readiness: 200, or 503 with `missing` naming each database that is not ready.

    Remarks are problems that do not prevent serving. They reveal no names, because the caller is not authenticated.
    """
    missing = readiness.missing()
    if missing:
        return JsonResponse({"status": "not ready", "missing": missing}, status=503)
    return JsonResponse({"status": "ready"} | readiness.remarks())
