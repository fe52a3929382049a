"""Settings of the scheduler in a case: options by group and name, filters and weighers by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from conductor.core.errors import Invalid
from conductor.core.plugin_options import OptionsSchema

# Groups of options with the names of our filters, weighers and pre-filters.
GROUPS = ("filter_scheduler", "metrics", "scheduler")
FALLBACK = "workarounds.disable_fallback_pcpu_query"
ATTEMPTS = "scheduler.max_attempts"
LIMIT = "scheduler.max_placement_results"
COUNTS = {ATTEMPTS: 1, LIMIT: 1}  # minimum of each
DEFAULT_FILTERS = (
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
)


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a case. `values` are options by their names without a group; `weighers` None stands for all."""

    values: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    filters: tuple[str, ...] = DEFAULT_FILTERS
    weighers: tuple[str, ...] | None = None

    @property
    def multipliers(self) -> dict[str, float]:
        return {
            name.partition(".")[2]: float(value)
            for name, value in self.config.items()
            if name.startswith("filter_scheduler.") and name.endswith("_weight_multiplier")
        }

    @property
    def has_fallback(self) -> bool:
        return not self.config.get(FALLBACK, False)

    @property
    def max_attempts(self) -> int:
        return int(self.config.get(ATTEMPTS, 3))

    @property
    def max_candidates(self) -> int:
        return int(self.config.get(LIMIT, 1000))


def settings_of(case: Mapping[str, Any]) -> Settings:
    """Return the settings. Raises Invalid naming an option whose value has the wrong type."""
    config = case.get("config", {})
    for name, value in config.items():
        if name.endswith("weight_multiplier") and not _is_number(value):
            raise Invalid(f"config.{name}: {value!r} is not a finite number.")
        if name in COUNTS and not (isinstance(value, int) and value >= COUNTS[name]):
            raise Invalid(f"config.{name}: {value!r} is not a whole number from {COUNTS[name]}.")
    values = {name.partition(".")[2]: value for name, value in config.items() if name.partition(".")[0] in GROUPS}
    weighers = case.get("weighers")
    return Settings(
        values=values,
        config=config,
        filters=tuple(dict.fromkeys(case.get("filters", DEFAULT_FILTERS))),
        weighers=None if weighers is None else tuple(dict.fromkeys(weighers)),
    )


def check_options(settings: Settings, schema: OptionsSchema) -> None:
    """Raise Invalid naming an option of a plugin whose value the plugin's schema does not accept."""
    for key, value in settings.config.items():
        group, _, name = key.partition(".")
        kind = str(schema[name].get("type")) if group in GROUPS and name in schema else ""
        if kind in READS:
            read, expected = READS[kind]
            try:
                read(value)
            except (TypeError, ValueError, OverflowError):
                raise Invalid(f"config.{key}: {value!r} is not {expected}.") from None


def _items(value: Any) -> tuple[Any, ...]:
    if isinstance(value, str):
        raise TypeError
    return tuple(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


# Readers of option values, and a description of the result, by the type in the plugin's schema.
READS: Mapping[str, tuple[Callable[[Any], Any], str]] = {
    "integer": (int, "a whole number"),
    "number": (float, "a number"),
    "array": (_items, "a list"),
}
