"""Sums of what is held."""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet, Sum

from conductor.placement.models import Allocation


def of_project(project_id: str) -> dict[str, int]:
    """Amounts by resource class that a project's consumers hold."""
    return _summed(Allocation.objects.filter(consumer__project_id=project_id))


def of_provider(provider_uuid: UUID | str) -> dict[str, int]:
    """Amounts by resource class that are held of a provider."""
    return _summed(Allocation.objects.filter(provider__uuid=provider_uuid))


def _summed(rows: QuerySet[Allocation]) -> dict[str, int]:
    return dict(rows.values_list("resource_class").annotate(amount=Sum("amount")).order_by("resource_class"))
