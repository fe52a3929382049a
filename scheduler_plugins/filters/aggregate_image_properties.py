"""Filter by the image properties that the host's aggregates accept."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from conductor.core import image_properties
from conductor.core.filter import Filter
from conductor.core.host_state import HostState, HostTable, Mask
from conductor.core.messages import message
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.aggregate_metadata import words
from conductor.core.verdict import PASS, Verdict, reject

NAMESPACE = "aggregate_image_properties_isolation_namespace"
SEPARATOR = "aggregate_image_properties_isolation_separator"


class AggregateImagePropertiesIsolation(Filter):
    """Drop hosts in aggregates whose metadata sets an image property to another value."""

    name = "AggregateImagePropertiesIsolation"
    runs_once_per_request = True
    runs_on_rebuild = True
    is_on_by_default = False
    options_schema = {
        NAMESPACE: {
            "type": ["string", "null"],
            "default": None,
            "description": "Use only metadata keys that begin with this prefix and the separator. Empty: all keys.",
        },
        SEPARATOR: {
            "type": "string",
            "default": ".",
            "description": "Separator between the namespace and the rest of a key.",
        },
    }

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        mask = hosts.everyone
        for name, value in self._wanted(spec).items():
            factor = hosts.factor(f"aggregates:{name}", partial(_values, name=name))
            mask = mask & factor.mask(partial(_takes, value=value))
        return mask

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        for name, value in self._wanted(spec).items():
            values = _values(host, name)
            if not _takes(values, value):
                need = ", ".join(sorted(values))
                return reject(message("reject.other_images", name=name), need=need, have=value)
        return PASS

    def _wanted(self, spec: RequestSpec) -> Mapping[str, str]:
        """Return the image's properties that aggregates may restrict."""
        namespace = self.options[NAMESPACE]
        prefix = f"{namespace}{self.options[SEPARATOR]}" if namespace else ""
        found = image_properties.known(spec.image.properties)
        return {name: str(value) for name, value in found.items() if value and name.startswith(prefix)}


def _values(host: HostState, name: str) -> frozenset[str]:
    return words(host.aggregate_metadata.get(name, frozenset()))


def _takes(values: frozenset[str], value: str) -> bool:
    return not values or value in values
