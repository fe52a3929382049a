"""Discrepancies of OVN's gateways: hosts that connect routers with external networks and have stopped."""

from __future__ import annotations

from collections.abc import Iterator

from conductor.services.operations.reconciliation.facts import ReconciliationFacts
from conductor.services.operations.reconciliation.finding import Discrepancy, DiscrepancyKind


def _dead(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    for name in facts.ovn.dead_gateways if facts.ovn is not None else ():
        detail = (
            f"Gateway {name} does not carry out changes of networks. Routers use their other gateways; those without "
            "one have no way outside. Look whether the host is up, and ovn-controller runs there and reaches the "
            f"southbound database. If the host does not return, run ovn-sbctl chassis-del {name}."
        )
        yield Discrepancy(subject=f"gateway:{name}", detail=detail)


KINDS = (DiscrepancyKind("gateway_dead", "Gateway that has stopped", _dead),)
