"""Disassociates floating IPs when a port loses addresses. Callers have a transaction."""

from __future__ import annotations

from django.db.models import QuerySet

from conductor.network.models import FloatingIp, Port
from conductor.network.revisions import touch


def release(ports: QuerySet[Port]) -> None:
    """Disassociate the floating IPs of these ports; needed before the ports are deleted."""
    _free(FloatingIp.objects.filter(port__in=ports.order_by().values("pk")))


def release_lost(port: Port) -> None:
    """Disassociate the floating IPs of addresses that the port no longer has."""
    held = port.addresses.values("ip_address")
    _free(FloatingIp.objects.filter(port=port).exclude(fixed_ip_address__in=held))


def _free(rows: QuerySet[FloatingIp]) -> None:
    touch(rows, port=None, fixed_ip_address=None, router=None)
