"""The plugin that registers the classes of Nova that the operator named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conductor.core.filter import Filter
from conductor.core.weigher import Weigher
from conductor.hookspecs import hookimpl
from scheduler_plugins.nova_adapter.filters import filter_of
from scheduler_plugins.nova_adapter.guests import Guests, names_of
from scheduler_plugins.nova_adapter.weighers import weigher_of


class NovaAdapter:
    """Creates an adapter class for each class path.

    One that cannot be loaded has a stand-in that fails: a configured filter is never silently skipped.
    """

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


def _listed(message: str | Sequence[str]) -> tuple[str, ...]:
    """Return a list; a single text is split at commas, not into letters."""
    words = message.split(",") if isinstance(message, str) else message
    return tuple(str(word).strip() for word in words if str(word).strip())
