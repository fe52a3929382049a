"""The fast path for claims of new consumers writes and refuses the same as the general path."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from django.db import connections

from conductor.core.compute_driver import Inventory
from conductor.core.errors import ConcurrentUpdate
from conductor.placement import allocations, inventories, models, providers
from conductor.placement.allocations import Claim
from tests.counting import Captured
from tests.databases import empty_all
from tests.integration.placement.stock import ANA, BO, LAB, SHOP, used, uuid_of

pytestmark = pytest.mark.usefixtures("databases")

HOSTS = ("one", "two", "three")
Grant = Callable[[Sequence[Claim]], None]


def stock() -> None:
    empty_all()
    for index, name in enumerate(HOSTS):
        room = {
            "VCPU": Inventory(8, allocation_ratio=1.5, max_unit=4),
            "MEMORY_MB": Inventory(4096, reserved=512, min_unit=256, step_size=256 * (1 + index)),
        }
        inventories.report(uuid_of(name), name, room)


def drawn(dice: random.Random) -> list[Claim]:
    """Return a few claims: mostly of new consumers, on hosts that mostly have room."""
    claims = []
    for _ in range(dice.randint(1, 3)):
        consumer = uuid_of(f"consumer-{dice.randrange(40)}")
        host = dice.choice([*HOSTS * 6, "gone"])
        amounts = {"VCPU": dice.choice([1, 1, 1, 2, 2, 5]), "MEMORY_MB": dice.choice([512, 768, 1536, 1536])}
        for name in dice.sample(list(amounts), dice.choice([0, 0, 0, 1])):
            del amounts[name]
        project, user = dice.choice([(SHOP, ANA), (LAB, BO)])
        claims.append(Claim(consumer, uuid_of(host), amounts, project, user, dice.choice(["INSTANCE", "MIGRATION"])))
    return claims


def stored() -> list[object]:
    """Return the rows that claims write, by names, because their ids differ."""
    allocated = models.Allocation.objects.values_list("consumer__uuid", "provider__name", "resource_class", "amount")
    consumers = models.Consumer.objects.values_list("uuid", "project_id", "user_id", "generation", "consumer_type")
    changes = models.ResourceProvider.objects.values_list("name", "generation", "change_number")
    return [used(), sorted(allocated), sorted(consumers), sorted(changes), providers.position().number]


def outcomes(seed: int) -> list[object]:
    """Return the results of a few batches, with all rows stored after them."""
    dice = random.Random(seed)
    stock()
    found: list[object] = []
    for _ in range(8):
        try:
            allocations.claim_many(drawn(dice))
            found.append("granted")
        except ConcurrentUpdate as error:
            found.append((type(error), error.message, error.details))
        found.append(stored())
    return found


@pytest.mark.parametrize("seed", range(12))
def test_the_fast_and_the_general_path_write_and_refuse_the_same_claims(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = outcomes(seed)

    def refuse(claims: Sequence[Claim]) -> None:
        raise allocations.NotFresh

    monkeypatch.setattr(allocations, "grant_fresh", refuse)
    assert outcomes(seed) == fast
    assert "granted" in fast


def test_claims_of_many_cost_as_many_statements_as_claims_of_one() -> None:
    stock()
    for first, count in ((0, 1), (10, 9)):
        claims = [
            Claim(uuid_of(f"c{index}"), uuid_of(HOSTS[index % 3]), {"VCPU": 1}, SHOP, ANA)
            for index in range(first, first + count)
        ]
        with Captured(connections["default"]) as seen:
            allocations.claim_many(claims)
        # SQLite reports each row of a statement for many rows: one for each host and one for each claim.
        rows = min(count, len(HOSTS)) + count - 2 if connections["default"].vendor == "sqlite" else 0
        assert len(seen) <= 8 + rows
