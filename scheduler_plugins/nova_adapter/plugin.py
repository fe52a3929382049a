"""The plugin that brings the classes of Nova that the operator named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conductor.core.filter import Filter
from conductor.core.weigher import Weigher
from conductor.hookspecs import hookimpl
from scheduler_plugins.nova_adapter.filters import filter_of
from scheduler_plugins.nova_adapter.guests import Guests, names_of
from scheduler_plugins.nova_adapter.weighers import weigher_of


class NovaAdapter:
    """One class of ours for each class path. One that cannot be had has a stand-in that fails: a guard that was
    asked for is never passed over in silence."""

    def __init__(
        self, filters: Sequence[str], weighers: Mapping[str, float | None], config_files: Sequence[str] = ()
    ) -> None:
        self._filters = _listed(filters)
        self._weighers = dict(weighers) if isinstance(weighers, Mapping) else dict.fromkeys(_listed(weighers))
        self._guests = Guests(_listed(config_files))

    @hookimpl
    def register_filters(self) -> Sequence[type[Filter]]:
        names = names_of(self._filters)
        return tuple(filter_of(name, path, self._guests) for path, name in names.items())

    @hookimpl
    def register_weighers(self) -> Sequence[type[Weigher]]:
        names = names_of(self._weighers)
        return tuple(weigher_of(name, path, self._guests, self._weighers[path]) for path, name in names.items())


def _listed(said: str | Sequence[str]) -> tuple[str, ...]:
    """A lone text is a list whose words are parted by commas: to take it for a list of letters would help nobody."""
    words = said.split(",") if isinstance(said, str) else said
    return tuple(str(word).strip() for word in words if str(word).strip())
