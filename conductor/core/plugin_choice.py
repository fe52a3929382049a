"""The operator's settings of filters and weighers at run time; the configuration applies where none is set."""

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

REJECT_HOSTS = "reject"
LET_PASS = "let pass"
CONSEQUENCES = (REJECT_HOSTS, LET_PASS)

PluginKey = tuple[str, str]  # kind and name


@dataclass(frozen=True, slots=True)
class PluginSettings:
    """Settings of one plugin; None where the default applies.

    `on_failure` decides about the hosts for which a filter fails. `options` are the values that were set; they override
    those of the configuration and of the plugin.
    """

    is_enabled: bool | None = None
    mode: str | None = None
    on_failure: str | None = None
    multiplier: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        chosen = {name: getattr(self, name) for name in ("is_enabled", "mode", "on_failure", "multiplier")}
        values = {name: value for name, value in chosen.items() if value is not None}
        return values | ({"options": dict(self.options)} if self.options else {})


@dataclass(frozen=True, slots=True)
class PluginKindSettings:
    """Settings of one kind. Plugins that `order` names run first, in its order; the others in their default order."""

    order: tuple[str, ...] = ()
    per_plugin: Mapping[str, PluginSettings] = field(default_factory=dict)

    def of(self, name: str) -> PluginSettings:
        return self.per_plugin.get(name) or PluginSettings()

    def to_json(self) -> dict[str, Any]:
        per_plugin = {name: settings.to_json() for name, settings in sorted(self.per_plugin.items())}
        return {
            "order": list(self.order),
            "plugins": {name: settings for name, settings in per_plugin.items() if settings},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PluginKindSettings:
        """Parse the JSON of these settings. Fields of a later version are skipped."""
        per_plugin = {
            name: PluginSettings(
                is_enabled=settings.get("is_enabled"),
                mode=settings.get("mode"),
                on_failure=settings.get("on_failure"),
                multiplier=settings.get("multiplier"),
                options=dict(settings.get("options", {})),
            )
            for name, settings in data.get("plugins", {}).items()
        }
        return cls(tuple(data.get("order", ())), per_plugin)
