"""The state of the projection into OVN and of OVN itself, for operators."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings

from conductor.cells.lookup import API_ALIAS
from conductor.db.transactions import database_time
from conductor.journal.models import PeriodicLease
from conductor.network.ovn import health
from conductor.network.ovn.errors import DatabaseUnavailable
from conductor.network.ovn.health import OvnHealth
from conductor.network.ovn.tls import TlsFiles

LEASE = "ovn-projection"


@dataclass(frozen=True, slots=True)
class OvnState:
    """The age of the last full pass, None if there was none, and OVN's health.

    `failure` is the reason if OVN does not answer.
    """

    pass_age_seconds: float | None
    health: OvnHealth | None = None
    failure: str = ""


def is_configured() -> bool:
    return bool(settings.NOVELLA_OVN_NORTHBOUND)


def tls_files() -> TlsFiles | None:
    """Return the files for servers with `ssl:`; None if they are not configured."""
    key, certificate = settings.NOVELLA_OVN_PRIVATE_KEY, settings.NOVELLA_OVN_CERTIFICATE
    authorities = settings.NOVELLA_OVN_CA_CERTIFICATE
    if key is None or certificate is None or authorities is None:
        return None
    return TlsFiles(key, certificate, authorities)


def read(*, seconds: float) -> OvnState:
    """Return the state; OVN's databases have `seconds` each to answer."""
    done_at = PeriodicLease.objects.using(API_ALIAS).filter(name=LEASE).values_list("done_at", flat=True).first()
    age = None if done_at is None else max(0.0, (database_time(API_ALIAS) - done_at).total_seconds())
    try:
        found = health.read(
            settings.NOVELLA_OVN_NORTHBOUND, settings.NOVELLA_OVN_SOUTHBOUND, seconds=seconds, tls=tls_files()
        )
    except DatabaseUnavailable as error:
        return OvnState(age, failure=str(error))
    return OvnState(age, found)
