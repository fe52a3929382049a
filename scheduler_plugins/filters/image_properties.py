"""Filter by the architecture, hypervisor and mode that the image requires."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from packaging.version import InvalidVersion, Version

from conductor.core import image_properties
from conductor.core.filter import Filter
from conductor.core.host_state import HostState, HostTable, Mask
from conductor.core.messages import message
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.host_attributes import capability
from conductor.core.verdict import PASS, Verdict, reject, unreadable

Supported = tuple[tuple[str, str, str], ...]
Predicate = tuple[tuple[Callable[[Version, Version], bool], Version], ...]

# Image property, its meaning, and the canonical name of each value; in the order of a host's entries.
PROPERTIES: tuple[tuple[str, str, Callable[[object], str]], ...] = (
    ("hw_architecture", "architecture", image_properties.architecture),
    ("img_hv_type", "hypervisor", image_properties.hypervisor),
    ("hw_vm_mode", "mode", image_properties.mode),
)
VERSION = "img_hv_requested_version"
ADDRESS_BITS = "hw_maxphysaddr_bits"
BITS_PATH = ("cpu_info", "maxphysaddr", "bits")
UNREADABLE = "unreadable"
DEFAULT_ARCHITECTURE = "image_properties_default_architecture"
KEPT = 1024  # entries with cached names: fleets have a handful
COMPARISONS: Mapping[str, Callable[[Version, Version], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
TERM = re.compile(r"\s*(<=|>=|==|!=|<|>)\s*(\S+)\s*")


class ImagePropertiesFilter(Filter):
    """Match the image's architecture, hypervisor type and mode with the host.

    Where the image asks for one of them, the hypervisor's version must also meet `img_hv_requested_version`, and the
    processor must have the address bits of `hw_maxphysaddr_bits`; hosts that do not say meet both.
    """

    name = "ImagePropertiesFilter"
    runs_once_per_request = True
    runs_on_rebuild = True
    options_schema = {
        DEFAULT_ARCHITECTURE: {
            "enum": [None, *image_properties.ARCHITECTURES],
            "default": None,
            "description": "Architecture of images that don't set one. Empty: such images run on any host.",
        }
    }

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        properties = image_properties.known(spec.image.properties)
        wanted = self._wanted(properties)
        if not wanted:
            return hosts.everyone
        mask = hosts.factor("supported_instances").mask(lambda supported: _is_supported(supported, wanted))
        if properties.get(VERSION):
            terms = _terms(properties[VERSION])
            mask &= hosts.factor("hypervisor_version").mask(lambda version: _meets_version(version, terms))
        bits = properties.get(ADDRESS_BITS)
        if bits:
            mask &= hosts.factor("address_bits", _address_bits).mask(lambda has: bool(_bits_verdict(has, bits)))
        return mask

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        properties = image_properties.known(spec.image.properties)
        wanted = self._wanted(properties)
        if not wanted:
            return PASS
        if not _is_supported(host.supported_instances, wanted):
            return _explained(host.supported_instances, tuple(wanted.items()))
        predicate = properties.get(VERSION)
        terms = _terms(predicate) if predicate else ()
        if terms is None and host.hypervisor_version:
            return unreadable(f"{VERSION} {predicate} of the image is no condition on versions", need=predicate)
        if not _meets_version(host.hypervisor_version, terms):
            have = _version_text(host.hypervisor_version)
            return reject(message("reject.hypervisor_version"), need=predicate, have=have)
        bits = properties.get(ADDRESS_BITS)
        return _bits_verdict(_address_bits(host), bits) if bits else PASS

    def _wanted(self, properties: Mapping[str, Any]) -> dict[str, str]:
        """Return image property → value, for those of the three that are set, by the image or for all images."""
        default = self.options[DEFAULT_ARCHITECTURE]
        found = {name: str(properties[name]) for name, _, _ in PROPERTIES if properties.get(name)}
        if default and "hw_architecture" not in properties:
            found["hw_architecture"] = image_properties.architecture(default)
        return found


def _is_supported(supported: Supported, wanted: Mapping[str, str]) -> bool:
    values = wanted.values()
    return any(names.issuperset(values) for names in _names(supported))


@lru_cache(KEPT)
def _names(supported: Supported) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(_named(entry)) for entry in supported)


@lru_cache(KEPT)
def _named(entry: tuple[str, str, str]) -> tuple[str, ...]:
    """Return an entry with the canonical name of each of its values."""
    return tuple(one_name(value) for (_, _, one_name), value in zip(PROPERTIES, entry, strict=False))


@lru_cache(KEPT)
def _explained(supported: Supported, wanted_items: tuple[tuple[str, str], ...]) -> Verdict:
    """Name the first property that no entry has; where each alone is supported, name them all."""
    wanted = dict(wanted_items)
    for position, (name, word, _) in enumerate(PROPERTIES):
        have = ", ".join(sorted({_named(entry)[position] for entry in supported})) or "nothing that it names"
        if name in wanted and not any(wanted[name] in _named(entry) for entry in supported):
            reason = message("reject.image_property", what=word, wanted=wanted[name], have=have)
            return reject(reason, need=wanted[name], have=have)
    have = "; ".join("/".join(entry) for entry in supported)
    return reject(message("reject.image_combination"), need="/".join(wanted.values()), have=have)


def _terms(predicate: object) -> Predicate | None:
    """Return the conditions of e.g. ">=4.2, <9"; None for an invalid text."""
    terms = []
    for text in str(predicate).split(","):
        found = TERM.fullmatch(text)
        try:
            version = Version(found[2]) if found else None
        except InvalidVersion:
            version = None
        if found is None or version is None:
            return None
        terms.append((COMPARISONS[found[1]], version))
    return tuple(terms)


def _meets_version(version: int, terms: Predicate | None) -> bool:
    """Whether e.g. 8002000 (8.2.0) meets all terms. A host without a version meets all; invalid terms are never met."""
    if not version:
        return True
    if terms is None:
        return False
    own = Version(_version_text(version))
    return all(compare(own, other) for compare, other in terms)


def _version_text(version: int) -> str:
    """Return a version as text: 8002000 is 8.2.0, with three digits for each part but the first."""
    parts: list[str] = []
    while version > 0:
        version, part = divmod(version, 1000)
        parts.insert(0, str(part))
    return ".".join(parts)


def _address_bits(host: HostState) -> Any:
    """Return the address bits; None where the host does not report them, UNREADABLE where its CPU info is only text."""
    info = host.capabilities.get("cpu_info")
    if isinstance(info, str):
        return UNREADABLE
    bits = capability(host, BITS_PATH)
    return bits if isinstance(bits, int | float) else None


def _has_bits(has: Any, wanted: Any) -> bool:
    """Whether the host has as many bits; one that does not report them has enough."""
    return not has or (isinstance(wanted, int) and has >= wanted)


def _bits_verdict(has: Any, wanted: Any) -> Verdict:
    reason = f"image needs {wanted} bits of physical addresses"
    if has == UNREADABLE:
        return unreadable(f"{reason}, and what the host says of its processor is a text", need=wanted)
    return PASS if _has_bits(has, wanted) else reject(reason, need=wanted, have=has)
