"""A provider's inventory of one resource class, and its unit rules."""

from __future__ import annotations

from dataclasses import dataclass

MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Amount:
    """One resource class of a provider; capacity = (total - reserved) * allocation_ratio."""

    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int = MOST
    step_size: int = 1
    allocation_ratio: float = 1.0
    used: int = 0

    @property
    def capacity(self) -> float:
        return (self.total - self.reserved) * self.allocation_ratio

    @property
    def free(self) -> float:
        return self.capacity - self.used

    def suits(self, amount: int) -> bool:
        """Whether the amount keeps the unit rules, regardless of what is free."""
        return self.min_unit <= amount <= self.max_unit and not amount % self.step_size

    def gives(self, amount: int) -> bool:
        """Whether the amount can be allocated now."""
        return self.suits(amount) and self.used + amount <= self.capacity
