"""Discrepancies of OVN: gateways that have stopped, and rows that others keep changing."""

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


def _contested(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    for name in facts.ovn.contested if facts.ovn is not None else ():
        detail = (
            f"Row {name} of OVN's northbound database differs at each comparison with the networks: another client "
            "changes it again. Find the client, such as a script with ovn-nbctl or a second cloud, and stop it."
        )
        yield Discrepancy(subject=f"ovn:{name}", detail=detail)


KINDS = (
    DiscrepancyKind("gateway_dead", "Gateway that has stopped", _dead),
    DiscrepancyKind("ovn_row_contested", "Row of OVN that does not stay as it is written", _contested),
)
