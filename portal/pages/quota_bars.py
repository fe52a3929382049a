"""Quotas as bars: usage, the amount that an action would add, and whether that exceeds the limit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.utils.translation import gettext

from conductor.services.quotas.types import QuotaView
from portal.pages.amounts import short, whole

SHOWN: Mapping[str, str] = {"instances": "Servers", "cores": "vCPU", "ram": "Memory"}
IN_MB = ("ram", "image_size_total")
UNLIMITED = -1


@dataclass(frozen=True)
class QuotaBar:
    """A quota bar. Shares are of the limit; memory and image data are in MB."""

    name: str
    resource: str
    used: int
    limit: int
    more: int = 0

    @property
    def is_over(self) -> bool:
        return self.limit != UNLIMITED and self.used + self.more > self.limit

    @property
    def used_share(self) -> float:
        return min(1.0, self.used / self.limit) if self.limit > 0 else 0.0

    @property
    def more_share(self) -> float:
        return min(1.0 - self.used_share, self.more / self.limit) if self.limit > 0 else 0.0

    @property
    def used_text(self) -> str:
        return self._text(self.used)

    @property
    def more_text(self) -> str:
        return self._text(self.more)

    @property
    def limit_text(self) -> str:
        return gettext("unlimited") if self.limit == UNLIMITED else self._text(self.limit)

    @property
    def over_text(self) -> str:
        return gettext("%(amount)s over quota") % {"amount": self._text(self.used + self.more - self.limit)}

    def _text(self, amount: int) -> str:
        if self.resource not in IN_MB:
            return whole(amount)
        return f"{short(amount / 1024)} GB" if amount >= 1024 else f"{amount} MB"


def bars(limits: Iterable[QuotaView], more: Mapping[str, int] | None = None) -> list[QuotaBar]:
    """Return the important bars in order; `more` is the amount that an action would add, by resource."""
    by_name = {limit.resource: limit for limit in limits}
    adds = more or {}
    return [
        QuotaBar(word, name, by_name[name].in_use, by_name[name].limit, adds.get(name, 0))
        for name, word in SHOWN.items()
        if name in by_name
    ]
