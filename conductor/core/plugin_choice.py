"""What the operator chose for filters and weighers while the cloud runs; the settings hold where nothing was chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

FILTER = "filter"
WEIGHER = "weigher"
KINDS = (FILTER, WEIGHER)

DECIDES = "decides"
SHADOW = "shadow"  # it runs and is recorded, and does not decide
MODES = (DECIDES, SHADOW)

TURN_AWAY = "turn away"
LET_PASS = "let pass"
CONSEQUENCES = (TURN_AWAY, LET_PASS)

PluginKey = tuple[str, str]  # kind and name


@dataclass(frozen=True, slots=True)
class Wish:
    """What was chosen for one plugin; None where the default holds.

    `on_failure` is what becomes of the hosts that a filter fails about. `options` are the values that were set, over
    the settings' and the plugin's own.
    """

    is_enabled: bool | None = None
    mode: str | None = None
    on_failure: str | None = None
    multiplier: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        chosen = {name: getattr(self, name) for name in ("is_enabled", "mode", "on_failure", "multiplier")}
        said = {name: value for name, value in chosen.items() if value is not None}
        return said | ({"options": dict(self.options)} if self.options else {})


@dataclass(frozen=True, slots=True)
class PluginChoice:
    """The choice for one kind. Plugins that `order` names run first, in its order; the others as by default."""

    order: tuple[str, ...] = ()
    wishes: Mapping[str, Wish] = field(default_factory=dict)

    def of(self, name: str) -> Wish:
        return self.wishes.get(name) or Wish()

    def to_json(self) -> dict[str, Any]:
        wishes = {name: wish.to_json() for name, wish in sorted(self.wishes.items())}
        return {"order": list(self.order), "plugins": {name: wish for name, wish in wishes.items() if wish}}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PluginChoice:
        """What `to_json` wrote; fields of a later version are passed over."""
        wishes = {
            name: Wish(
                is_enabled=wish.get("is_enabled"),
                mode=wish.get("mode"),
                on_failure=wish.get("on_failure"),
                multiplier=wish.get("multiplier"),
                options=dict(wish.get("options", {})),
            )
            for name, wish in data.get("plugins", {}).items()
        }
        return cls(tuple(data.get("order", ())), wishes)
