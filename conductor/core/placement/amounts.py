"""What a provider has of one resource class, and the unit rules of asking for it."""

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
        """Whether so much may be asked for at once, whatever is free."""
        return self.min_unit <= amount <= self.max_unit and not amount % self.step_size

    def gives(self, amount: int) -> bool:
        """Whether so much may be had now."""
        return self.suits(amount) and self.used + amount <= self.capacity
